#!/usr/bin/env bash
# `./run package`'s .deb has the program, its pages, completions, documents and libraries for programs that ask, says what
# it depends on, and what is in it works from where it was unpacked.
. "$(dirname "$0")/lib.bash"
have dpkg-deb && have dpkg-shlibdeps || skip "no dpkg here"

cpack --config "$BUILD/CPackConfig.cmake" -G DEB -B "$T/out" >log 2>&1 || fail "cpack: $(cat log)"
package=$(echo out/backstep_*.deb)
[ -f "$package" ] || fail "there is no package: $(cat log)"
dpkg-deb -f "$package" Depends >depends
grep -q 'libc6 (>= ' depends || fail "it does not say that it needs libc6: $(cat depends)"
while read -r name; do
  [ "$(dpkg-query -W -f='${Status}' "$name" 2>/dev/null)" = "install ok installed" ] || fail "it depends on $name, which is not there"
done < <(tr ',' '\n' <depends | awk '{print $1}')

dpkg-deb -x "$package" unpacked
for file in bin/backstep share/man/man1/backstep-record.1 share/bash-completion/completions/backstep \
  share/zsh/site-functions/_backstep share/doc/backstep/README.md share/doc/backstep/docs/user-guide.md \
  lib/python3/dist-packages/backstep/__init__.py include/backstep/session.h; do
  ls unpacked/usr/$file* >/dev/null 2>&1 || fail "the package has no /usr/$file: $(find unpacked -type f)"
done
[ -z "$(find unpacked -type f -not -path 'unpacked/usr/*')" ] || fail "files outside of /usr"

program=$T/unpacked/usr/bin/backstep
[ "$(echo hello | "$program" record -q -- cat)" = hello ] || fail "cat was not recorded"
[ "$("$program" replay --autopilot -q)" = hello ] || fail "cat was not replayed"
[ "$(PYTHONPATH=$T/unpacked/usr/lib/python3/dist-packages "$PYTHON" -c "
import backstep
with backstep.open('$BACKSTEP_DIR/cat-1', program='$program') as s: print(s.count('syscall write'))")" = 1 ] || fail "Python"
ok
