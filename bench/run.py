#!/usr/bin/env python3
"""Measures Backstep: the same commands natively, recorded and replayed (`./run bench`).

Wall time, best of N; the three are run in turn, so that a slow moment of the machine hits all of them. Ratios
are to native. The workloads are those of the project's speed targets; 'CPU' marks the CPU-bound ones that the
geometric mean is taken over. Threads take turns when recorded, so programs with threads are compared with native runs
on one core, or by the CPU time that they took in all; their names say so. Of a tree of processes the first one is
replayed.

    run.py [--quick] [--rounds N] [--only NAME]... [--json | --markdown] [--list] [--travel | --long | --luck | --ask | --trace | --probe]

BACKSTEP names the program (default: build/backstep of this repository). Exit status 1 if a run went wrong.
"""
import argparse
import glob
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BACKSTEP = os.path.abspath(os.environ.get("BACKSTEP", os.path.join(ROOT, "build", "backstep")))

# A preprocessed file is made from this: containers, algorithms, strings, streams, as real code has them.
CXX_SOURCE = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
struct Item { std::string name; std::vector<int> values; std::map<std::string, double> weights; };
static std::unordered_map<std::string, std::shared_ptr<Item>> items;
int main(int argc, char** argv) {
  for (int i = 0; i < argc; i++) {
    std::string s = argv[i];
    auto dash = s.find('-');
    if (dash == std::string::npos) continue;
    auto& item = items[s.substr(0, dash)];
    if (!item) item = std::make_shared<Item>();
    item->values.push_back(std::stoi(s.substr(dash + 1)));
    item->weights[s] += 0.5;
  }
  std::vector<std::pair<std::string, int>> order;
  for (auto& [k, v] : items) order.emplace_back(k, std::accumulate(v->values.begin(), v->values.end(), 0));
  std::sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.second > b.second; });
  std::ostringstream out;
  for (auto& [k, n] : order) out << k << '=' << n << '\\n';
  std::cout << out.str();
}
""".replace("#include <algorithm>", "#include <algorithm>\n#include <numeric>")

# A server with two clients; the first run (native) makes its database.
PGBENCH = """
cd "$1"
[ -d base ] || {{
  "$2"/initdb -D base -N -A trust -U me >/dev/null
  "$2"/pg_ctl -D base -o "-k $1 -c listen_addresses=" -l log -w start >/dev/null
  "$2"/pgbench -h "$1" -U me -i -s 1 -q postgres >/dev/null 2>&1
  "$2"/pg_ctl -D base -m fast stop >/dev/null
}}
rm -rf data
cp -r base data
"$2"/pg_ctl -D data -o "-k $1 -c listen_addresses= -c fsync=off" -l log -w start >/dev/null
result=$("$2"/pgbench -h "$1" -U me -c 2 -j 2 -n -t {n} postgres 2>/dev/null | grep processed)
echo "$result"
"$2"/pg_ctl -D data -m fast stop >/dev/null
"""

SQL = """
create table t(id integer primary key, name text, value real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
  insert into t select i, printf('name-%06d', i * 7919 % 1000003), i / 7.0 from n;
create index by_name on t(name);
select count(*), sum(value) from t where name > 'name-5';
select substr(name, 1, 7) p, count(*), avg(value) from t group by p order by 2 desc limit 5;
update t set value = value * 1.01 where id % 3 = 0;
select sum(value) from t a where exists (select 1 from t b where b.id = a.id / 2 and b.value < a.value);
"""

PERL = """
my %h; my $s = 0;
for my $i (1 .. {n}) {{
  my $k = "key" . ($i * 7919 % 5003);
  $h{{$k}} += $i;
  $s += length $1 if $k =~ /(\\d+)$/;
}}
print $s, " ", scalar(keys %h), "\\n";
"""

PYTHON = """
def work(n):
    table, total = {{}}, 0
    for i in range(n):
        key = i * 7919 % 5003
        table[key] = table.get(key, 0) + i
        total += len(str(key))
    return total, len(table), sum(table.values())
print(work({n}))
"""


# The server is recorded (natively RECORD is empty), the client is not; the time is that of the client.
REDIS = """
cd "$(dirname "$0")"
rm -f socket
$RECORD redis-server --port 0 --unixsocket socket --save '' --appendonly no >/dev/null &
until redis-cli -s socket ping 2>/dev/null | grep -q PONG; do sleep 0.02; done
start=$(date +%s%N)
redis-benchmark -s socket -c 1 -P $1 -n $2 -q -t get,set >/dev/null
echo $((($(date +%s%N) - start))) >"$BENCH_TIME"
redis-cli -s socket shutdown nosave
wait
"""

MAKEFILE = """
program: {objects}
\tgcc -o $@ $^
%.o: %.c
\tgcc -O1 -c -o $@ $<
"""

C_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct item_{n} {{ char name[32]; int value; }};
static int compare_{n}(const void *a, const void *b) {{
  return ((const struct item_{n} *)a)->value - ((const struct item_{n} *)b)->value;
}}
int work_{n}(int count) {{
  struct item_{n} *items = calloc((size_t)count, sizeof *items);
  for (int i = 0; i < count; i++) {{ sprintf(items[i].name, "item-%d", i); items[i].value = i * 7919 % 1009; }}
  qsort(items, (size_t)count, sizeof *items, compare_{n});
  int sum = 0;
  for (int i = 0; i < count; i++) sum += (int)strlen(items[i].name) * items[i].value;
  free(items);
  return sum;
}}
"""


class Workload:
    """cpu: counts for the geometric mean. one_core: natively on one core only. cpu_time: of the processors, not of the
    clock. calls: how often it does what it is about, for the time of one. gdb: replay means these commands, in gdb.
    inner: the command records a part of itself, by what is in the variable RECORD, and writes the nanoseconds that count
    to the file BENCH_TIME. rounds: at most so many. targets: {"record_ratio": ..., ...}. against: the name of a workload; its
    recording is what the recording of this one is compared with ("record_against"). user: who runs it, if we are root."""

    def __init__(self, name, command, cpu=False, stdin=None, needs=None, one_core=False, cpu_time=False, calls=None,
                 gdb=None, inner=False, rounds=None, targets=None, against=None, user=None):
        self.name, self.command, self.cpu, self.stdin = name, command, cpu, stdin
        self.missing = needs if needs and not shutil.which(needs) else None
        core = str(min(os.sched_getaffinity(0)))
        self.native = ["taskset", "-c", core] + command if one_core else command
        self.cpu_time, self.calls, self.targets, self.against = cpu_time, calls, targets or {}, against
        self.prefix = []
        if user and os.getuid() == 0:
            library = os.path.join(os.path.dirname(command[1]), user + "-library")  # ours is not theirs to write
            self.prefix = ["setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups", "env",
                           "BACKSTEP_DIR=" + library]
        self.gdb = [word for command in gdb for word in ("-ex", command)] if gdb else None
        self.inner, self.rounds = inner, rounds


def compile_programs(folder):
    for source in sorted(os.listdir(os.path.join(HERE, "programs"))):
        base, extension = os.path.splitext(source)
        compiler = {".c": ["gcc"], ".cc": ["g++", "-std=c++20"]}[extension]
        path = os.path.join(HERE, "programs", source)
        subprocess.run(compiler + ["-O2", "-g", path, "-o", os.path.join(folder, base), "-lm", "-pthread"],
                       check=True)


def make_text(path, size):
    """Text that compresses about as English does, the same every time."""
    state = 12345
    with open(path, "w") as f:
        vocabulary = []
        for i in range(4000):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            letters = range(0, 4 * (2 + i % 6), 4)
            vocabulary.append("".join("etaoinshrdlucmfw"[(state >> s) & 15] for s in letters))
        written = 0
        while written < size:
            line = []
            for _ in range(12):
                state = (state * 1103515245 + 12345) & 0x7FFFFFFF
                line.append(vocabulary[(state >> 8) % 4000 * ((state >> 20) % 100) // 100])
            text = " ".join(line) + "\n"
            f.write(text)
            written += len(text)


def workloads(folder, quick):
    scale = 4 if quick else 1
    here = lambda name: os.path.join(folder, name)
    make_text(here("text"), 12_000_000 // scale)
    make_text(here("text-small"), 3_000_000 // scale)
    postgres = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    postgres = postgres[-1] if postgres else "postgresql"
    os.mkdir(here("pg"))
    os.chmod(here("pg"), 0o777)
    transactions = 400 // scale
    files = {"pgbench.sh": PGBENCH.format(n=transactions // 2), "loop.pl": PERL.format(n=1_500_000 // scale), "loop.py": PYTHON.format(n=2_000_000 // scale),
             "work.sql": SQL.format(rows=200_000 // scale), "source.cc": CXX_SOURCE, "redis.sh": REDIS,
             "commands.sh": f"for ((i = 0; i < {1000 // scale}; i++)); do /bin/true; done\n"}
    os.mkdir(here("project"))
    parts = range(6)
    for n in parts:
        files[f"project/part{n}.c"] = C_SOURCE.format(n=n)
    files["project/main.c"] = "".join(f"int work_{n}(int);\n" for n in parts) + "int main(void) { return (" + " + ".join(
        f"work_{n}(100)" for n in parts) + ") == 0; }\n"
    files["project/Makefile"] = MAKEFILE.format(objects=" ".join(["main.o"] + [f"part{n}.o" for n in parts]))
    for name, text in files.items():
        with open(here(name), "w") as f:
            f.write(text)
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    cc1plus = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True)
    cc1plus = cc1plus.stdout.strip()
    subprocess.run(["g++", "-std=c++20", "-E", here("source.cc"), "-o", here("source.ii")], check=True)
    return [
        Workload("fib(40)", [here("fib"), "36" if quick else "40"], cpu=True),
        Workload("n-body", [here("nbody"), str(5_000_000 // scale)], cpu=True),
        Workload("sieve", [here("sieve"), str(100 // scale)], cpu=True),
        Workload("virtual/map", [here("virtual_map"), str(2_000_000 // scale)], cpu=True),
        Workload("gzip", ["gzip", "-c", here("text")], cpu=True, needs="gzip"),
        Workload("xz", ["xz", "-c", "-T1", "-3", here("text-small")], cpu=True, needs="xz"),
        Workload("perl loop", ["perl", here("loop.pl")], cpu=True, needs="perl"),
        Workload("python loop", [python, "-S", here("loop.py")], cpu=True),
        Workload("sqlite", ["sqlite3", ":memory:"], cpu=True, stdin=here("work.sql"), needs="sqlite3"),
        Workload("cc1plus -O2", [cc1plus, "-quiet", "-std=c++20", "-O2", here("source.ii"), "-o", "/dev/null"],
                 cpu=True, needs=cc1plus),
        Workload("500k reads", [here("reads"), str(500_000 // scale)]),
        Workload("true", ["/bin/true"]),
        Workload("4 threads, one mutex (one core)", [here("locks"), "4", "2000000"], one_core=True,
                 calls=2_000_000, targets={"record_ratio": 2.0}),
        Workload("4 threads, own mutexes (one core)", [here("locks"), "4", "8000000", "own"],
                 one_core=True, calls=8_000_000),
        Workload("condition ping-pong (one core)", [here("pingpong"), str(200_000 // scale)], one_core=True,
                 calls=400_000 // scale, targets={"record_ratio": 1.5}),
        Workload("clock_gettime", [here("clock"), str(5_000_000 // scale)], calls=5_000_000 // scale,
                 targets={"record_ns": 100}),
        Workload("pool of 2 (CPU time)", [here("pool"), "2", str(1000 // scale)], cpu_time=True,
                 targets={"record_ratio": 1.6}),
        Workload("pipe ping-pong of 2 processes", [here("pipes"), str(20_000 // scale)], calls=20_000 // scale,
                 targets={"record_ratio": 3.0}),
        Workload("200 x fork, exec true", [here("spawn"), str(200 // scale)], calls=200 // scale,
                 targets={"record_extra_ms": 10}),
        Workload("make -j2", ["make", "-s", "-B", "-j2", "-C", here("project")], needs="make",
                 targets={"record_ratio": 3.0}),
        Workload("bash, 1,000 commands", ["bash", here("commands.sh")], calls=1000 // scale, rounds=2,
                 targets={"record_extra_ms": 12}),
        Workload("redis, 1 client, pipeline 1", ["bash", here("redis.sh"), "1", str(40_000 // scale)], inner=True,
                 needs="redis-server", targets={"record_ratio": 2.5}),
        Workload("redis, 1 client, pipeline 16", ["bash", here("redis.sh"), "16", str(200_000 // scale)], inner=True,
                 needs="redis-server", targets={"record_ratio": 2.5}),
        # Its replay takes as long as what it computes: compare with 'native CPU s'.
        Workload("sleeper", [here("sleeper"), str(50 // scale)]),
        Workload("64 MB private memory (CPU time)", [here("shared"), "private", "64", str(20 // scale)], cpu_time=True),
        # Natively it is slower than private memory, too: page faults of shared memory cost more.
        Workload("64 MB shared memory, alone (CPU time)", [here("shared"), "alone", "64", str(20 // scale)],
                 cpu_time=True, against="64 MB private memory (CPU time)", targets={"record_against": 1.1}),
        Workload("64 MB System V segment, alone (CPU time)", [here("shared"), "segment", "64", str(20 // scale)],
                 cpu_time=True, against="64 MB private memory (CPU time)", targets={"record_against": 1.1}),
        Workload("shared memory, ping-pong of 2 processes", [here("shared"), "pingpong", str(4000 // scale)],
                 calls=8000 // scale),
        Workload("shared memory, 2 processes on one counter", [here("shared"), "counter", str(20_000_000 // scale)],
                 calls=40_000_000 // scale),
        Workload("PostgreSQL, pgbench -c 2", ["bash", here("pgbench.sh"), here("pg"), postgres], calls=transactions,
                 needs=os.path.join(postgres, "initdb"), user="postgres"),
        Workload("false conditional hits in gdb", [here("hits"), str(10_000_000 // scale)], needs="gdb",
                 gdb=["break hit if i < 0", "continue"], targets={"replay_s": 5}),
    ]


def run(command, stdin, out, record=""):
    """(seconds, CPU seconds, peak memory in MB) of one run, output to a file; raises if it fails."""
    folder = os.path.dirname(out)
    report, own_time = os.path.join(folder, "report"), os.path.join(folder, "time")
    if os.path.exists(own_time):
        os.remove(own_time)
    with open(stdin or "/dev/null", "rb") as standard_input, open(out, "wb") as output:
        result = subprocess.run([os.path.join(folder, "measure"), report] + command, stdin=standard_input,
                                stdout=output, stderr=subprocess.PIPE,
                                env=dict(os.environ, RECORD=record, BENCH_TIME=own_time))
    if result.returncode != 0:
        words = result.stderr.decode(errors="replace").strip()[-400:]
        raise RuntimeError(f"{' '.join(command)} ended with {result.returncode}: {words}")
    with open(report) as f:
        seconds, kilobytes, _, cpu = f.read().split()
    if os.path.exists(own_time):
        with open(own_time) as f:
            seconds = int(f.read()) / 1e9
    return float(seconds), float(cpu), int(kilobytes) / 1024


def same(a, b):
    with open(a, "rb") as f, open(b, "rb") as g:
        return f.read() == g.read()


def measure(workload, rounds, folder):
    best = {"native": math.inf, "record": math.inf, "replay": math.inf}
    cpu_time = dict(best)
    memory = {"native": 0, "record": 0, "replay": 0}
    recording = os.path.join(folder, "recording")
    # A short program needs more runs for the same precision, and is cheap.
    probe, _, _ = run(workload.prefix + workload.command, workload.stdin, os.path.join(folder, "out.native"))
    if probe < 0.05:
        rounds = max(rounds, 15)
    if workload.rounds:
        rounds = min(rounds, workload.rounds)
    recorder = [BACKSTEP, "record", "-q", "-o", recording, "--"]
    for _ in range(rounds):
        shutil.rmtree(recording, ignore_errors=True)
        commands = {
            "native": workload.native,
            "record": workload.command if workload.inner else recorder + workload.command,
            "replay": [BACKSTEP, "replay", "--autopilot", "-q", recording],
        }
        if workload.gdb:
            commands["replay"] = [BACKSTEP, "replay", "-q", recording, "-nx", "-batch"] + workload.gdb
        for how, command in commands.items():
            stdin = None if how == "replay" else workload.stdin
            seconds, cpu, megabytes = run(workload.prefix + command, stdin, os.path.join(folder, "out." + how),
                                          " ".join(recorder) if how == "record" else "")
            best[how] = min(best[how], cpu if workload.cpu_time else seconds)
            cpu_time[how] = min(cpu_time[how], cpu)
            memory[how] = max(memory[how], megabytes)
        if not same(os.path.join(folder, "out.native"), os.path.join(folder, "out.record")):
            raise RuntimeError("the recorded run printed something else than the native one")
        replayed = not workload.inner and not workload.gdb
        if replayed and not same(os.path.join(folder, "out.record"), os.path.join(folder, "out.replay")):
            raise RuntimeError("the replay printed something else than the recorded run")
    info = subprocess.run([BACKSTEP, "info", "--json", recording], capture_output=True, check=True)
    info = json.loads(info.stdout)
    log = info["log"]
    shutil.rmtree(recording, ignore_errors=True)
    return {
        "name": workload.name,
        "cpu": workload.cpu,
        "native_s": best["native"],
        "record_s": best["record"],
        "replay_s": best["replay"],
        "record_ratio": best["record"] / best["native"],
        "replay_ratio": best["replay"] / best["native"],
        "native_cpu_s": cpu_time["native"],
        "record_cpu_s": cpu_time["record"],
        "replay_cpu_s": cpu_time["replay"],
        "record_extra_ms": (best["record"] - best["native"]) / workload.calls * 1000 if workload.calls else None,
        "record_ns": best["record"] / workload.calls * 1e9 if workload.calls else None,
        "targets": workload.targets,
        "against": workload.against,
        "ticks": log["ticks"],
        "events": log["events"],
        "log_bytes": log["bytes"],
        "bytes_per_event": log["bytes"] / max(1, log["events"]),
        "recording_bytes": info["size"],
        "native_mb": memory["native"],
        "record_mb": memory["record"],
        "replay_mb": memory["replay"],
    }


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


COLUMNS = [("workload", "{name}"), ("native s", "{native_s:.3f}"), ("native CPU s", "{native_cpu_s:.3f}"),
           ("record", "{record_ratio:.2f}"), ("replay", "{replay_ratio:.2f}"),
           ("record ns each", "{each}"), ("+ms each", "{extra_each}"),
           ("record +ms", "{record_ms:.1f}"), ("replay +ms", "{replay_ms:.1f}"), ("M ticks", "{mega_ticks:.1f}"),
           ("events", "{events}"), ("log B/event", "{bytes_per_event:.1f}"),
           ("recording KB", "{kilobytes:.0f}"), ("native MB", "{native_mb:.0f}"),
           ("record MB", "{record_mb:.0f}"), ("replay MB", "{replay_mb:.0f}")]


def cells(result):
    extra = {"record_ms": (result["record_s"] - result["native_s"]) * 1000,
             "replay_ms": (result["replay_s"] - result["native_s"]) * 1000,
             "extra_each": f"{result['record_extra_ms']:.1f}" if (result["record_extra_ms"] or 0) >= 0.1 else "",
             "each": f"{result['record_ns']:.0f}" if result["record_ns"] else "",
             "mega_ticks": result["ticks"] / 1e6, "kilobytes": result["recording_bytes"] / 1024}
    return [form.format(**result, **extra) for _, form in COLUMNS]


def show(results, markdown):
    rows = [[title for title, _ in COLUMNS]] + [cells(r) for r in results]
    cpu = [r for r in results if r["cpu"]]
    if len(cpu) > 1:
        mean = [""] * len(COLUMNS)
        mean[0] = f"geometric mean of {len(cpu)}"
        titles = [title for title, _ in COLUMNS]
        for how in ("record", "replay"):
            mean[titles.index(how)] = f"{geomean([r[how + '_ratio'] for r in cpu]):.2f}"
        rows.append(mean)
    if markdown:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        lines.insert(1, "|---|" + "---:|" * (len(COLUMNS) - 1))
        print("\n".join(lines))
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    for row in rows:
        padded = [text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths))]
        print("  ".join(padded).rstrip())


def show_targets(results):
    """What was promised, and what is. Only said: how fast it is today is no matter of right or wrong."""
    for r in results:
        other = next((o for o in results if o["name"] == r["against"]), None)
        if other:
            r["record_against"] = r["record_s"] / other["record_s"]
            native = r["native_s"] / other["native_s"]
            print(f"{r['name']} / {r['against']}: {r['record_against']:.2f} recorded, {native:.2f} natively")
        for what, target in r["targets"].items():
            if what not in r:
                continue
            word = "met" if r[what] <= target else "MISSED"
            print(f"target {word}: {r['name']}: {what.replace('_', ' ')} {r[what]:.2f}, at most {target}")


def machine():
    model = "unknown CPU"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} x {model}, Linux {os.uname().release}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the work, fewer rounds")
    parser.add_argument("--rounds", type=int, help="runs of each kind (5; 2 with --quick)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="only workloads whose name contains this")
    parser.add_argument("--json", action="store_true", help="results as JSON")
    parser.add_argument("--markdown", action="store_true", help="a table for docs/benchmarks.md")
    parser.add_argument("--travel", action="store_true", help="how fast a debugger moves in time, instead (travel.py)")
    parser.add_argument("--long", action="store_true", help="… in a recording of 60 s of CPU time (takes 10 minutes)")
    parser.add_argument("--luck", action="store_true",
                        help="how much the size of the environment makes, instead (luck.py; takes 6 minutes)")
    parser.add_argument("--ask", action="store_true", help="what questions cost, instead (ask.py)")
    parser.add_argument("--trace", action="store_true", help="what tables of contents cost, instead (trace_windows.py)")
    parser.add_argument("--probe", action="store_true", help="what debug code costs, instead (probe.py)")
    parser.add_argument("--list", action="store_true", help="names of the workloads")
    options = parser.parse_args()
    if not os.access(BACKSTEP, os.X_OK):
        sys.exit(f"bench: there is no {BACKSTEP}; './run build' makes it")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rounds = options.rounds or (2 if options.quick else 5)
    results, failures = [], []
    with tempfile.TemporaryDirectory(prefix="backstep-bench.") as folder:
        os.chmod(folder, 0o777)  # some workloads are run by another user
        os.environ["BACKSTEP_DIR"] = os.path.join(folder, "library")
        compile_programs(folder)
        if options.travel or options.long:
            import travel
            rows = travel.measure(BACKSTEP, folder, options.long)
            print(machine() + "\n")
            travel.show(rows, options.markdown)
            return 0
        if options.ask:
            import ask
            import travel
            rows = ask.measure(BACKSTEP, folder)
            print(machine() + "\n")
            travel.show(rows, options.markdown)
            return 0
        if options.probe:
            import probe
            import travel
            rows = probe.measure(BACKSTEP, folder, os.path.join(HERE, "programs", "probed.c"))
            print(machine() + "; CPU time\n")
            travel.show(rows, options.markdown)
            return 0
        if options.trace:
            import trace_windows
            some = [w for w in workloads(folder, options.quick) if w.cpu and not w.missing
                    and (not options.only or any(o in w.name for o in options.only))]
            rows = trace_windows.measure(some, BACKSTEP, folder, rounds)
            print(machine() + "\n")
            trace_windows.show(rows, options.markdown)
            return 0
        if options.luck:
            import luck
            some = [w for w in workloads(folder, True) if w.name in luck.WORKLOADS
                    and (not options.only or any(o in w.name for o in options.only))]
            rows = luck.measure(some, BACKSTEP, folder, options.quick)
            print(machine() + "; CPU time\n")
            luck.show(rows, options.markdown)
            return 0
        chosen = [w for w in workloads(folder, options.quick)
                  if not options.only or any(o in w.name for o in options.only)]
        if options.list:
            print("\n".join(w.name for w in chosen))
            return 0
        for workload in chosen:
            if workload.missing:
                failures.append(f"{workload.name}: {workload.missing} is not installed")
                continue
            if sys.stderr.isatty():
                print(f"\r{workload.name} ...".ljust(40), end="", file=sys.stderr, flush=True)
            try:
                results.append(measure(workload, rounds, folder))
            except (RuntimeError, OSError, subprocess.CalledProcessError) as e:
                failures.append(f"{workload.name}: {e}")
        if sys.stderr.isatty():
            print("\r".ljust(40) + "\r", end="", file=sys.stderr)
    cpu = [r for r in results if r["cpu"]]
    if options.json:
        mean = {how: geomean([r[how + "_ratio"] for r in cpu]) if cpu else None for how in ("record", "replay")}
        print(json.dumps({"machine": machine(), "rounds": rounds, "quick": options.quick, "workloads": results,
                          "geomean": mean, "failures": failures}, indent=2))
    else:
        quick = " (--quick)" if options.quick else ""
        print(f"{machine()}; wall time, best of {rounds}; ratios to native{quick}")
        print()
        show(results, options.markdown)
        if not options.markdown:
            print()
            show_targets(results)
    for failure in failures:
        print(f"bench: {failure}", file=sys.stderr)
    return 1 if failures else 0


sys.exit(main())
