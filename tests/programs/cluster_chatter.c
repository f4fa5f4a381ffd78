// Two programs that talk at random over TCP and UDP and write down the truth: which bytes of which connection each call has moved. What
// is said about the recordings of both is compared with that.
//
//   cluster_chatter server PORT SEED CONNECTIONS TRUTH          forks a process for each connection
//   cluster_chatter client ADDRESS PORT SEED CONNECTIONS TRUTH  has all of them itself
//
// Lines of TRUTH: pid, S (sent) R (received) or P (peeked), how many such calls the process had made before, connection (the client's
// port, or "udp"), offset (or the datagram's number), bytes.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMost = 64, kBytes = 30000, kDatagrams = 60 };
struct talk {
  int fd, port, ended, shut;
  long sent, received;
};
static int truth, sends, receives;
static unsigned seed;
static unsigned below(unsigned n) { return (unsigned)rand_r(&seed) % n; }

static void tell(char what, const char *where, long offset, long bytes) {
  char line[128];
  const int n = what == 'S' ? sends++ : receives++;
  const int size = sprintf(line, "%d %c %d %s %ld %ld\n", getpid(), what, n, where, offset, bytes);
  if (write(truth, line, (size_t)size) != size) _exit(9);
}

static void say(struct talk *t) {
  char data[3000], where[16];
  const size_t n = 1 + below(sizeof data - 1);
  for (size_t i = 0; i < n; i++) data[i] = (char)below(256);
  struct iovec parts[2] = {{data, n / 3}, {data + n / 3, n - n / 3}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  ssize_t done = 0;
  switch (below(4)) {
    case 0: done = write(t->fd, data, n); break;
    case 1: done = writev(t->fd, parts, 2); break;
    case 2: done = send(t->fd, data, n, MSG_NOSIGNAL); break;
    case 3: done = sendmsg(t->fd, &message, MSG_NOSIGNAL); break;
  }
  if (done <= 0) return;
  sprintf(where, "%d", t->port);
  tell('S', where, t->sent, done);
  t->sent += done;
}

static void listen_to(struct talk *t) {
  char data[5000], where[16];
  const size_t n = 1 + below(sizeof data - 1);
  struct iovec parts[2] = {{data, n / 4}, {data + n / 4, n - n / 4}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  const int peek = below(6) == 0;
  ssize_t done = 0;
  if (peek) done = recv(t->fd, data, n, MSG_PEEK);
  else switch (below(4)) {
    case 0: done = read(t->fd, data, n); break;
    case 1: done = readv(t->fd, parts, 2); break;
    case 2: done = recv(t->fd, data, n, 0); break;
    case 3: done = recvmsg(t->fd, &message, 0); break;
  }
  if (done == 0) t->ended = 1;
  if (done < 0 && errno != EAGAIN) _exit(8);
  if (done <= 0) return;
  sprintf(where, "%d", t->port);
  tell(peek ? 'P' : 'R', where, t->received, done);
  if (!peek) t->received += done;
}

static void talk(struct talk *all, int count) {
  int left = count;
  while (left) {
    struct talk *t = &all[below((unsigned)count)];
    if (t->fd < 0) continue;
    if (t->sent < kBytes && below(2)) say(t);
    else if (!t->ended) {
      struct pollfd p = {t->fd, POLLIN, 0};
      if (poll(&p, 1, t->sent >= kBytes ? 20 : 0) > 0) listen_to(t);
    }
    if (t->sent >= kBytes && !t->shut) t->shut = 1, shutdown(t->fd, SHUT_WR);
    if (t->shut && t->ended) close(t->fd), t->fd = -1, left--;
  }
}

static struct talk begin(int fd, int port) {
  int size = 4096;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return (struct talk){.fd = fd, .port = port};
}

static int server(int port, int connections) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}, from;
  int l = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0), on = 1, small = 20000;
  setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(u, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);  // some will be lost
  if (bind(u, (void *)&a, sizeof a) || bind(l, (void *)&a, sizeof a) || listen(l, 16)) return 1;
  for (int k = 0; k < connections; k++) {
    socklen_t n = sizeof from;
    int fd = accept(l, (void *)&from, &n);
    if (fd < 0) return 2;
    seed += 7;
    if (!fork()) {
      close(l), close(u);
      struct talk t = begin(fd, ntohs(from.sin_port));
      sends = receives = 0;
      talk(&t, 1);
      _exit(0);
    }
    close(fd);
  }
  for (int status; wait(&status) > 0;)
    if (status) return 3;
  // The client has sent its datagrams by now; those that had no room are gone.
  int number[100];
  for (ssize_t n; (n = recv(u, number, sizeof number, MSG_DONTWAIT)) > 0;) tell('R', "udp", number[0], n);
  return 0;
}

static int client(const char *address, int port, int connections) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}, mine;
  inet_pton(AF_INET, address, &a.sin_addr);
  struct talk all[kMost];
  int u = socket(AF_INET, SOCK_DGRAM, 0), number[100];
  for (int k = 0; k < connections; k++) {
    int fd = -1;
    for (;;) {
      fd = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(fd, (void *)&a, sizeof a) == 0) break;
      close(fd);
      usleep(20000);
    }
    socklen_t n = sizeof mine;
    getsockname(fd, (void *)&mine, &n);
    all[k] = begin(fd, ntohs(mine.sin_port));
  }
  for (int i = 0; i < kDatagrams; i++) {
    const size_t size = sizeof(int) * (1 + below(99));
    for (int k = 0; k < 100; k++) number[k] = (int)below(1 << 30);
    number[0] = i;
    ssize_t n = sendto(u, number, size, 0, (void *)&a, sizeof a);
    if (n > 0) tell('S', "udp", i, n);
  }
  talk(all, connections);
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 6) return 64;
  const int is_server = strcmp(argv[1], "server") == 0;
  char **rest = argv + (is_server ? 2 : 3);
  seed = (unsigned)atoi(rest[1]);
  truth = open(rest[3], O_WRONLY | O_CREAT | O_APPEND, 0600);
  return is_server ? server(atoi(rest[0]), atoi(rest[2])) : client(argv[2], atoi(rest[0]), atoi(rest[2]));
}
