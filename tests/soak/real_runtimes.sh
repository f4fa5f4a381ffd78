#!/usr/bin/env bash
# Runtimes with garbage collectors, green threads and JITs of their own, as far as they are here: Erlang, Ruby, Guile, SBCL, Mono, GHC, and
# another translator (qemu).
source "$(dirname "$0")/../cases/lib.bash"
export LIMIT=100
some=
try() { # NAME LINE COMMAND...: that line must be in its output
  local name=$1 line=$2
  shift 2
  some+=" $name"
  NATIVE=no record_tree "$name" "$@"
  grep -qxF -- "$line" "$name.out" || fail "$name: $(tail -n 5 "$name.out" "$name.err")"
  rm -rf "$name"
}
! have erl || try erlang 21463137500 erl -noshell -eval 'P=self(),[spawn(fun()->P!{I,lists:sum(lists:seq(1,I*1000))} end)||I<-lists:seq(1,50)],
  io:format("~p~n",[lists:sum([receive {I,S}->S end||I<-lists:seq(1,50)])]),T=ets:new(a,[public]),[ets:insert(T,{I,I})||I<-lists:seq(1,10000)],
  io:format("~p~n",[os:cmd("echo sub")]),halt().'
! have ruby || try ruby '[0, 200010000, 400020000]' ruby -e 'r,w=IO.pipe; pids=3.times.map{|i| fork{ w.puts((1..20000).sum*i) } }
  pids.each{|p| Process.wait p}; w.close; t=4.times.map{|i| Thread.new{ (1..2000).reduce(:+)*i}}; t.map(&:value); GC.start
  puts r.read.lines.map(&:to_i).sort.inspect'
! have guile || try guile 2664667000 guile -c '(use-modules (ice-9 threads)) (display (apply + (par-map (lambda (x) (* x x)) (iota 2000)))) (newline)'
! have sbcl || try sbcl '(6765 6765 6765) ' sbcl --noinform --non-interactive --eval '(progn (defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
  (compile (quote fib)) (loop repeat 100 collect (make-array 10000)) (gc :full t)
  (let ((ts (loop for i below 3 collect (sb-thread:make-thread (lambda () (fib 20)))))) (print (mapcar (function sb-thread:join-thread) ts))) (terpri))'
if have mono && have mcs; then
  cat >m.cs <<'CS'
using System; using System.Linq; using System.Threading;
class M { static void Main() {
  var ts = Enumerable.Range(0, 4).Select(i => new Thread(() => { long s = 0; for (int k = 0; k < 200000; k++) s += k ^ i; lock (typeof(M)) Console.WriteLine(i + " " + s); })).ToArray();
  foreach (var t in ts) t.Start(); foreach (var t in ts) t.Join(); GC.Collect();
  var p = System.Diagnostics.Process.Start("/bin/echo", "child"); p.WaitForExit(); Console.WriteLine("done"); } }
CS
  mcs m.cs && try mono 'done' mono "$T/m.exe"
fi
if have ghc; then
  cat >h.hs <<'HS'
import Control.Concurrent
import Control.Monad
main = do { ms <- forM [1..20] (\i -> do { m <- newEmptyMVar; _ <- forkIO (putMVar m $! sum [1..i*1000::Integer]); return m }); vs <- mapM takeMVar ms; print (sum vs) }
HS
  ghc -threaded -O1 -v0 h.hs -o h && try ghc 1435105000 "$T/h" +RTS -N2
fi
if have qemu-x86_64; then
  printf '#include <stdio.h>\nint main(){long s=0;for(int i=0;i<100000;i++)s+=i;printf("%%ld\\n",s);}' >q.c
  ${CC:-cc} -static -O1 q.c -o q 2>/dev/null && try qemu 4999950000 qemu-x86_64 "$T/q"
fi
[ -n "$some" ] || skip "none of them is here"
say "done:$some"
ok
