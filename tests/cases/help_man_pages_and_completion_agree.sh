#!/usr/bin/env bash
# Every command has help, a man page and completion in both shells, and all of them know the same options.
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }

commands=$("$BACKSTEP" --help | sed -n '/^Commands/,/^$/p' | awk '/^  / {print $1}')
[ "$(wc -w <<<"$commands")" -ge 7 ] || fail "too few commands in --help: $commands"
for command in $commands; do
  help=$("$BACKSTEP" "$command" --help) || fail "$command --help"
  [ "$help" = "$("$BACKSTEP" help "$command")" ] || fail "help $command differs"
  grep -q "^usage: backstep $command" <<<"$help" || fail "$command --help has no usage line"
  grep -q '^Example' <<<"$help" || fail "$command --help has no example"
  page=$SRC/docs/man/backstep-$command.1
  [ -f "$page" ] || fail "no man page for $command"
  grep -q "backstep-$command" "$SRC/docs/man/backstep.1" || fail "backstep(1) does not mention $command"
  # As texts, not through pipes: grep -q stops reading at the first match, and that kills who writes.
  manual=$(sed 's/\\-/-/g' "$page")
  in_bash=$(grep -E "^ +$command\)" -A 12 "$SRC/completions/backstep.bash")
  in_zsh=$(sed -n "/^ *$command)/,/;;/p" "$SRC/completions/_backstep")
  for option in $(grep -oE '^  -[^ ]+' <<<"$help" | tr ',' ' '); do
    [ "$option" = --help ] || [ "$option" = -h ] || grep -qF -e "$option" <<<"$manual" || fail "$page lacks $option"
    grep -qF -e "$option" <<<"$in_bash" || fail "bash completion of $command lacks $option"
    grep -qF -e "$option" <<<"$in_zsh" || fail "zsh completion of $command lacks $option"
  done
done

for bad in "" "nonsense" "record" "record --nonsense ls" "ls --nonsense" "rm" "replay --autopilot --serve 1 x" "dump -n x"; do
  status=0
  # shellcheck disable=SC2086  # words on purpose
  "$BACKSTEP" $bad >/dev/null 2>err.$$ || status=$?
  [ -s err.$$ ] || fail "'$bad' says nothing"
  rm -f err.$$
  [ "$status" -eq 2 ] || fail "'$bad' exits with $status, not 2"
done
[[ $("$BACKSTEP" --version) =~ ^backstep\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "--version"

# Completion offers commands, then options, then recordings.
export BACKSTEP_DIR
BACKSTEP_DIR=$(mktemp -d)
trap 'rm -rf "$BACKSTEP_DIR"' EXIT
mkdir "$BACKSTEP_DIR/sort-1"
echo '{}' >"$BACKSTEP_DIR/sort-1/manifest.json"
# shellcheck source=/dev/null
source "$SRC/completions/backstep.bash"
complete_words() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _backstep; echo "${COMPREPLY[*]}"; }
[ "$(complete_words backstep rec)" = record ] || fail "completion of commands"
[ "$(complete_words backstep replay --auto)" = --autopilot ] || fail "completion of options"
[ "$(complete_words backstep info sor)" = sort-1 ] || fail "completion of recordings"
echo passed
