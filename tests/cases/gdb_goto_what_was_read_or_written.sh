#!/usr/bin/env bash
# goto input and goto output find text that went through files, pipes and sockets, also in the middle of long calls, and in pieces.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile moves <<'C'
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
char big[20000], back[20000];
int step;
int main(void) {
  int ends[2], pair[2];
  if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
  memset(big, '.', sizeof big);
  memcpy(big + 15000, "deep down", 9);
  step = 1;
  if (write(ends[1], big, sizeof big) != sizeof big) return 2;
  step = 2;
  if (read(ends[0], back, sizeof back) != sizeof back) return 3;
  step = 3;
  struct iovec parts[2] = {{big, 8000}, {"the needle here", 15}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  if (sendmsg(pair[0], &message, 0) != 8015) return 4;
  step = 4;
  if (recv(pair[1], back, 8003, 0) != 8003) return 5;
  step = 5;
  if (recv(pair[1], back, 100, 0) != 12) return 6;
  step = 6;
  int file = open("kept", O_RDWR | O_CREAT, 0600);
  if (write(file, "in two ", 7) != 7 || write(file, "pieces\n", 7) != 7) return 7;
  step = 7;
  return write(1, "shown\n", 6) != 6;
}
C
recorded moves 0
in_gdb moves 'goto output deep down' 'print step' 'goto output the needle' 'print step' 'goto output two pieces' 'print step' 'goto output shown' 'print step' \
  'goto output deep down' 'goto start' 'goto input deep down' 'print step' 'goto input the needle' 'print step' 'goto input needle' 'goto input ../etc'
printed '^\$1 = 1$'
printed '^\$2 = 3$'
printed '^\$3 = 6$'
printed '^\$4 = 7$'
printed '^\$5 = 2$'
printed '^\$6 = 4$'
times 1 'no output with this text from here on'
times 1 'no input with this text from here on'
ok
