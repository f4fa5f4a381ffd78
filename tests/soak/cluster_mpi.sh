#!/usr/bin/env bash
# Four ranks of Open MPI, each under a recorder of its own: 'mpirun -n 4 backstep record …'. A token goes around a ring; then every rank
# waits for its neighbour, and nobody sends. The deadlock is named, rank by rank.
source "$(dirname "$0")/../cases/lib.bash"
source "$SRC/tests/soak/cluster_real.bash"
have mpicc && have mpirun || skip "no Open MPI here (apt-get install openmpi-bin libopenmpi-dev)"
cat >ring.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, ranks, token = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  // Rank 0 begins; each adds its own number.
  if (rank == 0) MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
  MPI_Recv(&token, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  token += rank;
  if (rank) MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("token %d\n", token), fflush(stdout);
  if (argc > 1) MPI_Recv(&token, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // nobody sends
  MPI_Finalize();
  return 0;
}
C
mpicc -g -O1 -o ring ring.c
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Over TCP of the loopback only; ranks wait in poll() rather than in a loop.
# shellcheck disable=SC2054  # its lists have commas
mpi=(mpirun --oversubscribe -n 4 --mca btl tcp,self --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo --mca pml ob1 --mca mpi_yield_when_idle 1)
rank='exec "$BACKSTEP" record -q --host "rank$OMPI_COMM_WORLD_RANK" -o "$1-$OMPI_COMM_WORLD_RANK" -- "${@:2}"'
export BACKSTEP
timeout --foreground -k 20 300 "${mpi[@]}" bash -c "$rank" - whole ./ring >whole.out 2>whole.err </dev/null || { cat whole.err >&2; fail "mpirun ended with $?"; }
grep -qx 'token 6' whole.out || { cat whole.out whole.err >&2; fail "the token"; }
expect 0 cluster gather whole-* -o whole
holds whole
# The token has been everywhere: each rank's sending is behind that of the one before.
[ "$(sql whole "SELECT count(DISTINCT sender) FROM messages WHERE sender LIKE 'rank%/ring' AND receiver LIKE 'rank%/ring' AND sender <> receiver")" = 4 ] ||
  fail "not every rank has sent to another one"

say "a deadlock, ended from outside"
timeout --foreground -k 20 300 "${mpi[@]}" bash -c "$rank" - hung ./ring forever >hung.out 2>hung.err </dev/null &
running=$!
began() { grep -qx 'token 6' hung.out; }
comes began || { cat hung.out hung.err >&2; fail "the token does not come around"; }
pids=$(for n in 0 1 2 3; do "$BACKSTEP" ps --json hung-$n | field 0.pid; done)
# They poll for as long as nothing comes: each has computed for a while longer then.
used() { awk '{print $14 + $15}' "/proc/$1/stat"; }
has_used() { [ "$(used "$1")" -ge "$2" ]; }
for pid in $pids; do
  until_used=$(($(used "$pid") + 15))
  comes has_used "$pid" $until_used || fail "rank $pid does not poll"
done
# shellcheck disable=SC2086
kill -TERM $pids
wait $running || true
for n in 0 1 2 3; do tree_ended hung-$n; done
expect 0 cluster gather hung-* -o hung
holds hung
expect 0 cluster blocked hung alive
for n in 0 1 2 3; do
  seen -E "^rank$n/ring +1 +polls .*tcp rank./ring -> rank./ring:.* rank$(((n + 1) % 4 < (n + 3) % 4 ? (n + 1) % 4 : (n + 3) % 4))/ring, rank" <out || { cat out >&2; fail "what rank $n waits for"; }
done
seen '^perhaps a deadlock, .*: rank./ring waits for rank./ring' <out || { cat out >&2; fail "the deadlock is not named"; }
ok
