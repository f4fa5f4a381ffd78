#!/usr/bin/env bash
# gcc's own cc1 and cc1plus (without the driver, which makes children), as and ld.
source "$(dirname "$0")/lib.bash"
need gcc g++ as ld
cat >a.cc <<'C'
#include <algorithm>
#include <map>
#include <string>
#include <vector>
int main(int argc, char** argv) {
  std::map<std::string, std::vector<int>> m;
  for (int i = 0; i < argc; i++) m[argv[i]].push_back(i);
  return std::count_if(m.begin(), m.end(), [](auto& p) { return p.second.size() > 1; });
}
C
printf '#include <stdio.h>\nint main(void) { for (int i = 0; i < 10; i++) printf("%%d\\n", i * i); }\n' >b.c
g++ -E a.cc -o a.ii
gcc -E b.c -o b.i
compile() {
  record_replay "$@"
  cp "folder.$1/out.s" "$1.recorded.s"
  (cd "folder.$1" && shift && "$@" >/dev/null 2>&1)
  same "$1.recorded.s" "folder.$1/out.s" "$1 made other code when recorded"
}
compile cc1 "$(gcc -print-prog-name=cc1)" -quiet -O2 "$T/b.i" -o out.s
compile cc1plus "$(g++ -print-prog-name=cc1plus)" -quiet -O1 "$T/a.ii" -o out.s
record_replay as as "$T/cc1.recorded.s" -o out.o
cp folder.as/out.o out.o
record_replay ld ld -r "$T/out.o" -o out2.o
ok
