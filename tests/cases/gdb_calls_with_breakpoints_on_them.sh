#!/usr/bin/env bash
# Breakpoints on the instruction of a system call (also of fork, and of those that do not return) and on the one behind
# it stop both ways, beside `catch syscall` and `catch fork`, each in its order; also calls that do not return, and
# such as do not exist.
# shellcheck disable=SC2154  # port is set in gdb.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile calls -pthread <<'C'
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#define CALL(name) \
  long name(long nr, long a, long b, long c); \
  asm(".globl " #name "\n" #name ": mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n" \
      ".globl " #name "_at\n" #name "_at: syscall\n.globl " #name "_behind\n" #name "_behind: ret\n")
CALL(forks);
CALL(reads);
CALL(unknown);
CALL(leaves);
CALL(ends);
char buffer[4];
void *run(void *a) { leaves(60, 0, 0, 0); return a; }
int main(int argc, char **argv) {
  int ends_of[2];
  pthread_t t;
  if (argc > 1) { execl(argv[1], argv[1], (char *)0); return 9; }
  if (pipe(ends_of) || write(ends_of[1], "abc", 4) != 4) return 1;
  reads(0, ends_of[0], (long)buffer, 4);
  unknown(99999, 1, 2, 3);
  if (forks(57, 0, 0, 0) == 0) _exit(3);
  wait(0);
  if (pthread_create(&t, 0, run, 0)) return 2;
  usleep(10000);
  ends(231, 7, 0, 0);
}
C
recorded calls 7
at() { nm calls | awk -v n="$1" '$3 == n { print "0x" $1 }'; }
base=0x11400000  # where a PIE is loaded (src/engine/layout.h)
serve calls
# shellcheck disable=SC2046  # several words
"$PYTHON" -B - "$SRC/tests/cases" "$port" "$base" "$(at buffer)" $(for f in reads unknown forks leaves ends; do at ${f}_at; at ${f}_behind; done) <<'PY'
import re, sys
sys.path.insert(0, sys.argv[1])
import rsp
s = rsp.Session(int(sys.argv[2]))
base, buffer, *places = (int(a, 16) for a in sys.argv[3:])
names = ["reads", "unknown", "forks", "leaves", "ends"]
points = {base + place: names[i // 2] + ("" if i % 2 == 0 else " behind") for i, place in enumerate(places)}
s.ask("qSupported:multiprocess+;swbreak+;fork-events+")
entry, back = (lambda n: "syscall_entry:%x" % n), (lambda n: "syscall_return:%x" % n)
def kind(reply):
    pc = int.from_bytes(bytes.fromhex(re.search(r"10:(\w+);", reply)[1]), "little")
    found = re.match(r"T05(syscall_\w+:\w+|fork|replaylog:\w+|watch|swbreak)?", reply)
    assert found, reply
    if found[1] == "fork":
        child = re.search(r"fork:p(\w+)", reply)[1]
        assert s.ask("D;" + child) == "OK"
    return (points.get(pc, "") if found[1] == "swbreak" else found[1], s.when(), s.state())
def all_stops(breaks, calls, watch):
    for pc in points:
        assert s.ask("%s0,%x,1" % ("Z" if breaks else "z", pc)) == "OK"
    assert s.ask("%s2,%x,4" % ("Z" if watch else "z", base + buffer)) == "OK"
    assert s.ask("QCatchSyscalls:" + ("1" + "".join(";%x" % c for c in calls) if calls else "0")) == "OK"
    s.goto("start")
    forwards = []
    while not forwards or "replaylog" not in forwards[-1][0]:
        forwards.append(kind(s.ask("vCont;c")))
    end = forwards.pop()
    kinds = [k for k, _, _ in forwards]
    # gdb goes on from a breakpoint by a step over it (that thread alone, without the breakpoint), which must end as a
    # step: what happens there is told with the next resume, and a call that is entered in words.
    s.goto("start")
    stepped = []
    while True:
        pc = int.from_bytes(bytes.fromhex(s.ask("p10")), "little")
        s.output = ""
        if breaks and pc in points:
            tid = re.search(r"QC(.*)", s.ask("qC"))[1]
            assert s.ask("z0,%x,1" % pc) == "OK"
            reply = s.ask("vCont;s:" + tid)
            assert s.ask("Z0,%x,1" % pc) == "OK"
            if "end of the recording" in s.output:
                assert reply.startswith("T00"), reply
                break
            assert "thread:%s;" % tid in reply and re.match("T0[05](watch:\\w+;|)[0-9a-f]+:", reply), reply
            entered = re.search("call to syscall (.*)", s.output)
            if entered:
                stepped.append(entry({"read": 0, "fork": 57, "exit": 60, "exit_group": 231}.get(entered[1], 99999)))
            elif "watch" in reply:
                stepped.append("watch")
            else:
                now = int.from_bytes(bytes.fromhex(re.search(r"10:(\w+);", reply)[1]), "little")
                if now in points:
                    stepped.append(points[now])  # gdb notices itself
            continue
        reply = s.ask("vCont;c")
        if "replaylog" in reply:
            break
        stepped.append(kind(reply)[0])
    behind = lambda k: k.endswith(" behind")  # also where a return stops, which then is told late
    assert sorted(k for k in stepped if not behind(k)) == sorted(k for k in kinds if not behind(k)), (stepped, kinds)
    # Back again from the end, from behind the last thing that was told.
    s.goto("end")
    while forwards and forwards[-1][1] == end[1]:
        forwards.pop()
    for what, place, state in reversed(forwards):
        back = kind(s.ask("bc"))
        if what == "watch":  # in front of it
            assert back[0] == what, (back[:2], what, place)
        else:
            assert back == (what, place, state), "backwards %s at %s, forwards %s at %s" % (*back[:2], what, place)
    assert "replaylog:begin" in s.ask("bc")
    return kinds
one = ["reads", "reads behind", "unknown", "unknown behind", "forks", "fork", "forks behind", "leaves", "ends"]
assert all_stops(True, [], False) == one, all_stops(True, [], False)
wanted = [0, 99999, 57, 60, 231]
kinds = all_stops(True, wanted, True)
start = kinds.index("reads")
assert kinds[start:] == ["reads", entry(0), "watch", back(0), "reads behind", "unknown", entry(99999), back(99999), "unknown behind",
                         "forks", entry(57), "fork", back(57), "forks behind", "leaves", entry(60), "ends", entry(231)], kinds
assert set(kinds[:start]) <= {entry(0), back(0)}, kinds[:start]
assert all_stops(False, [60], False) == ["fork", entry(60)]
assert all_stops(False, [59], False) == ["fork"]
PY
stop_server
# The same with gdb.
in_gdb calls "break *$((base + $(at forks_at)))" "break *$((base + $(at forks_behind)))" "break *$((base + $(at leaves_at)))" \
  "break *$((base + $(at ends_at)))" 'catch fork' 'catch syscall exit_group' 'continue' 'continue' 'continue' 'continue' 'continue' \
  'continue' 'continue' 'goto start' 'continue'
times 2 'Breakpoint 1, .* in forks_at'
printed 'Breakpoint 2, .* in forks_behind'
printed 'Catchpoint 5 \(forked process [0-9]+\)'
printed 'hit Breakpoint 3, .* in leaves_at'
printed 'hit Breakpoint 4, .* in ends_at'
printed 'call to syscall exit_group'
printed 'exits with status 7 here'
in_gdb calls "break *$((base + $(at forks_behind)))" 'catch syscall 99999' 'continue' 'continue' 'continue' 'reverse-continue' 'reverse-continue'
printed 'Breakpoint 1, .* in forks_behind'
times 2 'call to syscall 99999'
times 2 'returned from syscall 99999'
in_gdb calls "break *$((base + $(at reads_at)))" 'continue' 'catch syscall read' 'continue' 'continue'
printed 'call to syscall read'
printed 'returned from syscall read\), .* in reads_behind'
# A call that becomes another program.
"$BACKSTEP" record -q -o rec-other ./calls /bin/true
in_gdb other 'catch syscall execve' 'continue' 'continue' 'info inferiors'
times 1 'call to syscall execve'
ok
