// TCP over loopback within one process: non-blocking listen, connect, accept, epoll (level and edge), a few
// hundred kilobytes through a small window, addresses, options, UDP with an answer, a refused connection.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
  CHECK(listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, peer;
  CHECK(bind(listener, (void*)&address, sizeof address) == 0 && listen(listener, 8) == 0);
  socklen_t length = sizeof address;
  CHECK(getsockname(listener, (void*)&address, &length) == 0 && length == sizeof address);
  printf("port %d\n", ntohs(address.sin_port));
  CHECK(accept4(listener, 0, 0, 0) == -1 && errno == EAGAIN);

  int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  CHECK(connect(client, (void*)&address, sizeof address) == 0 || errno == EINPROGRESS);
  struct pollfd ready = {listener, POLLIN, 0};
  CHECK(poll(&ready, 1, 5000) == 1);
  length = sizeof peer;
  int server = accept4(listener, (void*)&peer, &length, SOCK_NONBLOCK);
  CHECK(server >= 0 && peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
  printf("peer port %d\n", ntohs(peer.sin_port));
  int error;
  length = sizeof error;
  CHECK(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
  CHECK(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);

  int poller = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0x1122334455667788}};
  CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, server, &event) == 0);
  event = (struct epoll_event){.events = EPOLLOUT | EPOLLET, .data = {.fd = client}};
  CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, client, &event) == 0);
  CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, client, &event) == -1 && errno == EEXIST);

  enum { kTotal = 600000 };
  static unsigned char data[kTotal], got[kTotal];
  for (int i = 0; i < kTotal; i++) data[i] = (unsigned char)next_number();
  long sent = 0, received = 0, rounds = 0, reads = 0;
  while (received < kTotal) {
    rounds++;
    if (sent < kTotal) {
      long n = send(client, data + sent, (size_t)(kTotal - sent > 50000 ? 50000 : kTotal - sent), 0);
      CHECK(n > 0 || errno == EAGAIN);
      if (n > 0) sent += n;
    }
    struct epoll_event events[4];
    int n = epoll_pwait(poller, events, 4, 1000, 0);
    CHECK(n >= 0);
    for (int i = 0; i < n; i++) {
      if (events[i].data.u64 != 0x1122334455667788) continue;
      long m = recv(server, got + received, (size_t)(1000 + rounds * 37 % 9000), 0);
      CHECK(m > 0 && (received += m) <= kTotal);
      reads++;
    }
  }
  CHECK(memcmp(data, got, kTotal) == 0);
  printf("%ld rounds %ld reads\n", rounds, reads);
  CHECK(epoll_ctl(poller, EPOLL_CTL_DEL, client, 0) == 0);
  CHECK(shutdown(client, SHUT_WR) == 0);
  ready = (struct pollfd){server, POLLIN | POLLRDHUP, 0};
  CHECK(poll(&ready, 1, 5000) == 1 && recv(server, got, 1, 0) == 0);
  close(client), close(server), close(listener);

  int refused = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(refused, (void*)&address, sizeof address) == -1 && errno == ECONNREFUSED);
  int u1 = socket(AF_INET, SOCK_DGRAM, 0), u2 = socket(AF_INET, SOCK_DGRAM, 0);
  address.sin_port = 0;
  CHECK(bind(u1, (void*)&address, sizeof address) == 0);
  length = sizeof address;
  CHECK(getsockname(u1, (void*)&address, &length) == 0);
  CHECK(sendto(u2, "ping", 4, 0, (void*)&address, sizeof address) == 4);
  length = sizeof peer;
  CHECK(recvfrom(u1, got, 100, 0, (void*)&peer, &length) == 4 &&
        sendto(u1, "pong!", 5, 0, (void*)&peer, length) == 5);
  CHECK(recv(u2, got, 100, MSG_PEEK) == 5 && recv(u2, got, 3, 0) == 3 && memcmp(got, "pon", 3) == 0);
  printf("tcp right\n");
}
