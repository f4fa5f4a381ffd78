#!/usr/bin/env bash
# A recording with a link, a pipe or a device in it is not opened, whatever is asked; 'ls' does not hang at it.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
"$BACKSTEP" record -q "$P/hello" >/dev/null 2>&1
own=$BACKSTEP_DIR/hello-1
mkdir elsewhere
echo secret >elsewhere/secret
try() { # NAME OF WHAT IS THERE
  for command in "replay --autopilot" dump info ps "checkpoints --make" "trace --level 1" "count main" pack; do
    # shellcheck disable=SC2086  # words of the command
    expect 1 timeout "$PATIENCE" "$BACKSTEP" $command "$BACKSTEP_DIR/bad"
    says "bad is not opened: $1 in it is a (link|pipe)"
  done
  timeout "$PATIENCE" "$BACKSTEP" ls >/dev/null 2>&1 || fail "ls ends with $? when $1 is there"
  [ "$(ls elsewhere)" = secret ] || fail "something was written where $1 leads: $(ls elsewhere)"
  rm -r "$BACKSTEP_DIR/bad"
}
fresh() { cp -r "$own" "$BACKSTEP_DIR/bad"; }
fresh
ln -s "$T/elsewhere" "$BACKSTEP_DIR/bad/checkpoints"
try checkpoints
fresh
ln -s "$T/elsewhere/new" "$BACKSTEP_DIR/bad/bookmarks.json.new"
try bookmarks.json.new
for file in manifest.json process-1.log tree; do
  fresh
  rm "$BACKSTEP_DIR/bad/$file"
  ln -s "$T/elsewhere/secret" "$BACKSTEP_DIR/bad/$file"
  try $file
  fresh
  rm "$BACKSTEP_DIR/bad/$file"
  mkfifo "$BACKSTEP_DIR/bad/$file"
  [ $file = manifest.json ] || try $file
  timeout "$PATIENCE" "$BACKSTEP" ls >/dev/null 2>&1 || [ $? -lt 100 ] || fail "ls hangs at a pipe"
  rm -rf "$BACKSTEP_DIR/bad"
done
# The folder itself may be reached through a link.
ln -s "$own" link
expect 0 "$BACKSTEP" replay --autopilot link
expect 0 "$BACKSTEP" info latest
ok
