#!/usr/bin/env bash
# Calls on memory that the kernel refuses, or does half of; pages of files larger than any disk; what children get of
# their parent's memory; mappings that grow; files that are mapped privately and changed; System V segments in pieces; as many mappings as there may be; what one mapping
# is like (PROCMAP_QUERY); where a program says that its parts are (PR_SET_MM). Natively and recorded the same, replayed exactly.
source "$(dirname "$0")/lib.bash"
same_program mem_errors
OUTPUT=same LIMIT=$PATIENCE record_tree mem_sparse "$P/mem_sparse"
OUTPUT=same record_tree mem_forked "$P/mem_forked"
OUTPUT=same record_tree mem_live "$P/mem_live"
[ -z "$(find "$T/mem_live" -maxdepth 1 -name 'changed-*')" ] || fail "live copies stay in the recording"
same_program mem_segments
LIMIT=$PATIENCE OUTPUT=same record_replay mem_many "$P/mem_many"
OUTPUT=same record_tree mem_query "$P/mem_query"
OUTPUT=same record_tree mem_told "$P/mem_told"

# What is kept of a terabyte fits into little, also in the recording itself.
kept() { du -sk "$1" | cut -f1; }
[ "$(kept "$BACKSTEP_DIR")" -lt 20000 ] || fail "the store has $(kept "$BACKSTEP_DIR") KB"
"$BACKSTEP" pack "$T/mem_sparse" >/dev/null
[ "$(kept "$T/mem_sparse")" -lt 20000 ] || fail "the packed recording has $(kept "$T/mem_sparse") KB"
rm -rf "$BACKSTEP_DIR"
replay_tree mem_sparse 1
ok
