// A descriptor of shared memory goes over a socket to a process that is not recorded, by sendmsg or as the second
// message of sendmmsg: from then on the memory has an outsider. What the recorded one reads goes into its digest.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

struct shared {
  atomic_int stage;  // 99: the writer may end
  atomic_ulong changes;
};

static struct shared *map(int fd) {
  struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED);
  return s;
}

union control {
  struct cmsghdr header;
  char room[CMSG_SPACE(sizeof(int))];
};

static int serve(const char *path) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(listener, (void *)&name, sizeof name) == 0 && listen(listener, 1) == 0);
  int fd = accept(listener, NULL, NULL), got = -1;
  CHECK(fd >= 0);
  while (got < 0) {
    char byte;
    struct iovec part = {&byte, 1};
    union control control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(fd, &message, 0) == 1);
    if (message.msg_controllen) memcpy(&got, CMSG_DATA(&control.header), sizeof got);
  }
  struct shared *s = map(got);
  CHECK(write(fd, "m", 1) == 1);
  while (s->stage != 99) s->changes++;
  return 0;
}

static int send_to(const char *path, int many) {
  int memory = memfd_create("memory", 0);
  CHECK(memory >= 0 && ftruncate(memory, 4096) == 0);
  struct shared *s = map(memory);
  s->changes = 1000;  // it is ours alone, and in use
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(connect(fd, (void *)&name, sizeof name) == 0);
  char bytes[2] = "ab";
  struct iovec parts[2] = {{bytes, 1}, {bytes + 1, 1}};
  union control control = {
      .header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.header), &memory, sizeof memory);
  struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &parts[0], .msg_iovlen = 1}},
                                {.msg_hdr = {.msg_iov = &parts[1],
                                             .msg_iovlen = 1,
                                             .msg_control = &control,
                                             .msg_controllen = sizeof control}}};
  if (many) {
    CHECK(sendmmsg(fd, messages, 2, 0) == 2);
  } else {
    CHECK(sendmsg(fd, &messages[1].msg_hdr, 0) == 1);
  }
  char answer;
  CHECK(read(fd, &answer, 1) == 1);
  uint64_t digest = 1469598103934665603u, last = 0;
  for (int seen = 0; seen < 200;) {
    uint64_t now = s->changes;
    if (now == last) continue;
    digest = (digest ^ now) * 1099511628211u;
    last = now;
    seen++;
  }
  s->stage = 99;
  printf("digest %016lx\n", digest);
  return 0;
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  if (strcmp(argv[1], "serve") == 0) return serve(argv[2]);
  return send_to(argv[2], strcmp(argv[1], "many") == 0);
}
