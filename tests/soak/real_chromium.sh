#!/usr/bin/env bash
# Chromium: dozens of processes around shared memory, a JIT, and, unless root runs it, a sandbox of user and PID namespaces, an
# empty root and filters of system calls.
source "$(dirname "$0")/../cases/lib.bash"
have chromium || skip "no chromium here (apt-get install chromium)"
cat >page.html <<'HTML'
<html><body><script>
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
document.body.innerHTML = "fib " + fib(22) + " sum " + [...Array(1000).keys()].reduce((a, b) => a + b)
</script></body></html>
HTML
export LIMIT=150 TREE_OUTPUT=no HOME=$T
options=(--headless --disable-gpu --user-data-dir="$T/profile" --dump-dom)
[ "$(id -u)" != 0 ] || options+=(--no-sandbox)
for _ in 1 2; do
  rm -rf profile
  NATIVE=no TREE_OPTIONS=--incomplete record_tree chromium chromium "${options[@]}" "file://$T/page.html"
  grep -q 'fib 17711 sum 499500' chromium.out || { tail -n 20 chromium.err >&2; fail "the page was not made: $(cat chromium.out)"; }
  "$BACKSTEP" rm -f "$T/chromium" >/dev/null 2>&1 || rm -rf chromium
done
# As another user it has its sandbox.
if [ "$(id -u)" = 0 ] && have setpriv && [ -z "${AGAIN:-}" ]; then
  chmod 755 "$T"
  mkdir -m 777 user
  cp -r "$SRC/tests" "$BACKSTEP" user
  AGAIN=yes setpriv --reuid=nobody --regid=nogroup --clear-groups env TMPDIR="$T/user" HOME="$T/user" AGAIN=yes \
    BACKSTEP="$T/user/${BACKSTEP##*/}" BUILD="$T/user" SRC="$T/user" bash "$T/user/tests/soak/real_chromium.sh" ||
    fail "with its sandbox"
fi
ok
