# A request's way over three processes and back, for cases about cuts; sourced behind lib.bash. A/chain asks A/chain.1, that asks A/chain.2, and
# this one answers to A/chain: four times, wrongly from the third time on.
cat >chain.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int to_server[2], to_worker[2], to_client[2];
static int answered;
static int get(int fd) {
  int n;
  if (read(fd, &n, sizeof n) != sizeof n) exit(0);
  return n;
}
static void put(int fd, int n) {
  if (write(fd, &n, sizeof n) != sizeof n) exit(1);
}
static int add(int n) { return answered++ < 2 ? n + 1 : n + 2; }
static void worker(void) {
  for (;;) put(to_client[1], add(get(to_worker[0])));
}
static void server(void) {
  for (;;) {
    int n = get(to_server[0]);
    put(to_worker[1], n * 10);
  }
}
static void check(int asked, int got) {
  if (got != asked * 10 + 1) printf("wrong answer to %d\n", asked);  // here
}
int main(void) {
  if (pipe(to_server) || pipe(to_worker) || pipe(to_client)) return 1;
  if (!fork()) close(to_server[1]), close(to_client[0]), close(to_client[1]), server();
  if (!fork()) close(to_worker[1]), close(to_server[0]), close(to_server[1]), close(to_client[0]), worker();
  close(to_server[0]), close(to_worker[0]), close(to_worker[1]), close(to_client[1]);
  for (int i = 0; i < 4; i++) {
    put(to_server[1], i);
    check(i, get(to_client[0]));
  }
  close(to_server[1]);
  while (wait(NULL) > 0) {
  }
  return 0;
}
C
gcc -g -O0 -o chain chain.c
WRONG=chain.c:$(grep -n '// here' chain.c | cut -d: -f1)
"$BACKSTEP" record -q --host A -o run ./chain >/dev/null
tree_ended run

cluster() { "$BACKSTEP" cluster "$@"; }
# place CUT PROCESS FIELD: of `cluster cuts --json`; line numbers need a replay.
place() {
  cluster cuts run "$1" --json | "$PYTHON" -c '
import json, sys
for p in json.load(sys.stdin)["processes"]:
    if p["process"] == sys.argv[1]:
        print(p.get(sys.argv[2], ""))' "$2" "$3"
}
# sql QUERY: the only number that it answers.
sql() { cluster sql run --csv "$1" | tail -n 1; }
# Is nothing received in a cut that was not sent?
consistent() {
  [ "$(sql "SELECT count(*) FROM messages m JOIN cuts r ON r.process = m.receiver JOIN cuts s ON s.process = m.sender AND s.name = r.name
            WHERE r.name = '$1' AND m.received_event < r.event AND m.sent_event >= s.event")" = 0 ]
}
