#!/usr/bin/env bash
# Python's ways to have children: subprocess, os.fork, multiprocessing, asyncio. (Its Pool and Queue need semaphores in
# shared memory, which is another matter.)
source "$(dirname "$0")/lib.bash"
cat >children.py <<'PY'
import asyncio, multiprocessing, os, signal, subprocess, sys, threading

def answer(connection, number):
    connection.send([number, number ** 2])
    connection.close()

def main():
    print(subprocess.run(["echo", "hi"], capture_output=True).stdout)
    print(subprocess.check_output("echo a; false || echo b; echo c >&2", shell=True, stderr=subprocess.STDOUT))
    print(subprocess.run(["cat"], input=b"x" * 200000, stdout=subprocess.PIPE).stdout.count(b"x"))
    try:
        subprocess.run(["/no/such/program"])
    except FileNotFoundError as e:
        print(e)
    try:
        subprocess.run(["sleep", "100"], timeout=0.05)
    except subprocess.TimeoutExpired:
        print("time is over")
    p = subprocess.Popen(["sh", "-c", "kill -TERM $$"], start_new_session=True, preexec_fn=os.getpid)
    print(p.wait())

    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", "exit 7"])
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.wait3.__name__)

    for method in sys.argv[1:]:
        context = multiprocessing.get_context(method)
        here, there = context.Pipe()
        p = context.Process(target=answer, args=(there, 12))
        p.start()
        print(method, here.recv())
        p.join()
        print(p.exitcode)

    async def run():
        p = await asyncio.create_subprocess_exec("sh", "-c", "cat; exit 3", stdin=-1, stdout=-1)
        out, _ = await p.communicate(b"xyz")
        several = await asyncio.gather(*[asyncio.create_subprocess_shell(f"exit {i}") for i in range(4)])
        return out, p.returncode, [await q.wait() for q in several]
    print(asyncio.run(run()))

    def in_thread(i):
        results[i] = subprocess.call(["sh", "-c", f"exit {i}"])
    results = {}
    threads = [threading.Thread(target=in_thread, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(sorted(results.items()))

if __name__ == "__main__":
    main()
PY
# What runs out of time is killed, and has no end.
OUTPUT=same REPLAYS=1 TREE_OPTIONS=--incomplete record_tree python "$PYTHON" "$T/children.py" fork spawn
ok
