// Pipes and unix sockets within one process: blocking-free reads, poll, select, ppoll, splice, tee, FIONREAD,
// sendmsg/recvmsg with several buffers, passed file descriptors, datagrams, shutdown, EPIPE, EAGAIN.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  int a[2], b[2], s[2];
  char buffer[70000];
  CHECK(pipe(a) == 0 && pipe2(b, O_NONBLOCK | O_CLOEXEC) == 0);
  CHECK(read(b[0], buffer, 1) == -1 && errno == EAGAIN);
  CHECK(write(a[1], "hello pipe", 10) == 10);
  int waiting;
  CHECK(ioctl(a[0], FIONREAD, &waiting) == 0 && waiting == 10);
  struct pollfd fds[3] = {{a[0], POLLIN, 0}, {b[0], POLLIN, 0}, {b[1], POLLOUT, 0}};
  CHECK(poll(fds, 3, 0) == 2 && fds[0].revents == POLLIN && fds[1].revents == 0 && fds[2].revents == POLLOUT);
  CHECK(ppoll(fds, 2, &(struct timespec){0, 1000000}, 0) == 1);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(a[0], &set);
  FD_SET(b[0], &set);
  CHECK(select(64, &set, 0, 0, &(struct timeval){0, 1000}) == 1 && FD_ISSET(a[0], &set) &&
        !FD_ISSET(b[0], &set));
  CHECK(tee(a[0], b[1], 5, 0) == 5 && read(b[0], buffer, 100) == 5 && memcmp(buffer, "hello", 5) == 0);
  CHECK(splice(a[0], 0, b[1], 0, 7, 0) == 7 && read(b[0], buffer, 100) == 7);
  CHECK(read(a[0], buffer, 100) == 3 && memcmp(buffer, "ipe", 3) == 0);
  long filled = 0;
  for (long n; (n = write(b[1], buffer, sizeof buffer)) > 0;) filled += n;
  printf("pipe holds %ld, size %d\n", filled, fcntl(b[0], F_GETPIPE_SZ));
  CHECK(close(b[0]) == 0 && write(b[1], "x", 1) == -1 && errno == EPIPE);
  CHECK(close(a[1]) == 0 && read(a[0], buffer, 1) == 0);

  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s) == 0);
  struct iovec out[3] = {{"one ", 4}, {"two ", 4}, {"three", 5}};
  CHECK(writev(s[0], out, 3) == 13);
  char x[5] = {0}, y[20] = {0};
  struct iovec in[2] = {{x, 4}, {y, 19}};
  CHECK(readv(s[1], in, 2) == 13 && strcmp(x, "one ") == 0 && strcmp(y, "two three") == 0);
  // A file descriptor goes through.
  int file = open("/dev/zero", O_RDONLY);
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
  } control = {
      .header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.header), &file, sizeof file);
  struct iovec one = {"fd", 2};
  struct msghdr message = {
      .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  CHECK(sendmsg(s[0], &message, 0) == 2);
  struct iovec two[2] = {{x, 1}, {y, 10}};
  memset(&control, 0, sizeof control);
  struct msghdr got = {
      .msg_iov = two, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
  CHECK(recvmsg(s[1], &got, 0) == 2 && x[0] == 'f' && y[0] == 'd' &&
        got.msg_controllen == CMSG_SPACE(sizeof(int)));
  int received;
  memcpy(&received, CMSG_DATA(&control.header), sizeof received);
  CHECK(received != file && read(received, buffer, 10) == 10 && buffer[9] == 0);
  CHECK(recv(s[1], buffer, 10, 0) == -1 && errno == EAGAIN);
  CHECK(shutdown(s[0], SHUT_WR) == 0 && recv(s[1], buffer, 10, 0) == 0);
  CHECK(send(s[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);

  // Datagrams with names, several at a time.
  int d1 = socket(AF_UNIX, SOCK_DGRAM, 0), d2 = socket(AF_UNIX, SOCK_DGRAM, 0);
  struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "dgram.sock"}, from;
  CHECK(bind(d1, (void*)&name, sizeof name) == 0 && connect(d2, (void*)&name, sizeof name) == 0);
  struct mmsghdr many[3] = {{0}};
  struct iovec parts[3] = {{"first", 5}, {"second", 6}, {"third", 5}};
  for (int i = 0; i < 3; i++) many[i].msg_hdr.msg_iov = &parts[i], many[i].msg_hdr.msg_iovlen = 1;
  CHECK(sendmmsg(d2, many, 3, 0) == 3 && many[1].msg_len == 6);
  char texts[3][16] = {{0}};
  for (int i = 0; i < 3; i++) parts[i] = (struct iovec){texts[i], 15};
  CHECK(recvmmsg(d1, many, 2, 0, 0) == 2 && strcmp(texts[0], "first") == 0 && many[1].msg_len == 6);
  socklen_t length = sizeof from;
  CHECK(recvfrom(d1, texts[2], 3, MSG_TRUNC, (void*)&from, &length) == 5 && strcmp(texts[2], "thi") == 0);
  CHECK(unlink("dgram.sock") == 0);
  struct ucred peer;
  length = sizeof peer;
  CHECK(getsockopt(s[0], SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid());
  printf("pipes right\n");
}
