# What must hold of every distributed run of real programs; sourced behind lib.bash by the cases here that record some.
cluster() { "$BACKSTEP" cluster "$@"; }
# sql RUN QUERY: the only number that it answers.
sql() { cluster sql "$1" --csv "$2" | tail -n 1; }
# record_hosts RUN <cluster.toml: all of them are recorded, within $LIMIT seconds (300).
record_hosts() {
  cat >"$1.toml"
  timeout --foreground -k 30 "${LIMIT:-300}" "$BACKSTEP" cluster record "$1.toml" -o "$1" >"$1.out" 2>"$1.err" </dev/null ||
    { cat "$1.out" "$1.err" >&2; fail "$1: not all hosts were recorded"; }
}
# host NAME LAUNCH COMMAND [daemon]: a [[host]] of cluster.toml. COMMAND is for a shell. None launches it: as it is.
host() {
  printf '[[host]]\nname = "%s"\nlaunch = "%s {command}"\ncommand = """%s"""\nfolder = "%s"\nbackstep = "%s"\n' "$1" "${2:-env}" "$3" "$T/rec-$1" "$BACKSTEP"
  [ "${4:-}" != daemon ] || echo 'daemon = true'
}
# holds RUN: every process replays exactly; messages are received behind where they are sent; cuts at several places of every process are
# consistent, both kinds; 'check', 'blocked' and the picture work.
holds() {
  local run=$1 host process part kind
  for host in "$run"/hosts/*; do
    ln -sfn "$PWD/$host" "$T/exact"
    TREE_OUTPUT=no replay_tree exact 1 --incomplete
  done
  expect 0 cluster check "$run"
  cp "$T/out" "$run.check"
  [ "$(sql "$run" 'SELECT count(*) FROM messages WHERE sent_time >= received_time')" = 0 ] || fail "$run: received before it was sent"
  cluster sql "$run" --csv "SELECT name FROM processes p WHERE name IN (SELECT sender FROM messages) OR name IN (SELECT receiver FROM messages)
    ORDER BY (SELECT count(*) FROM messages WHERE sender = p.name) DESC LIMIT 4" | tail -n +2 | tr -d '"' >"$run.talk"
  while IFS= read -r process; do
    # Where it has sent or received three and seven tenths of what it does.
    for part in 3 7; do
      part=$(sql "$run" "WITH ends AS (SELECT sent AS tick, sent_at AS at FROM messages WHERE sender = '$process'
          UNION SELECT received, received_at FROM messages WHERE receiver = '$process')
        SELECT at FROM ends ORDER BY tick LIMIT 1 OFFSET (SELECT count(*) * $part / 10 FROM ends)")
      for kind in --causal --optimistic; do
        expect 0 cluster break "$run" "$process" $part $kind --quick --name here
        [ "$(sql "$run" "SELECT count(*) FROM messages m JOIN cuts r ON r.process = m.receiver JOIN cuts s ON s.process = m.sender AND s.name = r.name
          WHERE r.name = 'here' AND m.received_event < r.event AND m.sent_event >= s.event AND NOT m.peeked")" = 0 ] ||
          fail "$run: a cut at $part of $process ($kind) has received what was not sent"
      done
    done
  done <"$run.talk"
  expect 0 cluster svg "$run" --from 40% --to 50% -o "$run.svg"
  expect 0 cluster goto "$run" alive --quick
  local blocked=0
  cluster blocked "$run" >"$run.blocked" || blocked=$?
  [ "$blocked" = "${BLOCKED:-0}" ] || { cat "$run.blocked" >&2; fail "$run: 'blocked' ends with $blocked"; }
}
