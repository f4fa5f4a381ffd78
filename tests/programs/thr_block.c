// A thread in a blocking call does not stop the others: in every case one thread sleeps in the call, and what it waits
// for is done by another thread after some computing. Prints what the call returned.
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "thr.h"

static int a[2], b[2];  // a pipe, a pair of sockets; of each case
static int listener, fd, fd2, watched;
static struct sockaddr_in address;
static pid_t child;
static sem_t semaphore;
static atomic_int entered, returned, progress;

static void make_pipe(void) { CHECK(pipe(a) == 0); }
static void close_pipe(void) { close(a[0]), close(a[1]); }
static void write_byte(void) { CHECK(write(a[1], "x", 1) == 1); }

// A read may return less than there is.
static int read_all(int from, char* text, long size) {
  long got = 0, n;
  while (got < size && (n = read(from, text + got, (size_t)(size - got))) > 0) got += n;
  return got == size;
}

static long wait_read(void) {
  char byte;
  long n = read(a[0], &byte, 1);
  return n == 1 ? byte : -1;
}
static long wait_poll(void) {
  struct pollfd p = {a[0], POLLIN, 0};
  return poll(&p, 1, -1) * 100 + p.revents;
}
static long wait_select(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(a[0], &set);
  return select(a[0] + 1, &set, 0, 0, 0) * 10 + !!FD_ISSET(a[0], &set);
}
static long wait_epoll(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event = {EPOLLIN, {.u64 = 77}}, got;
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, a[0], &event) == 0);
  long n = epoll_wait(epoll, &got, 1, -1);
  close(epoll);
  return n * 1000 + (long)got.data.u64;
}

static void fill_pipe(void) {
  make_pipe();
  static char block[4096];
  CHECK(fcntl(a[1], F_SETFL, O_NONBLOCK) == 0);
  while (write(a[1], block, sizeof block) > 0) {
  }
  CHECK(fcntl(a[1], F_SETFL, 0) == 0);
}
static long wait_write(void) { return write(a[1], "full", 4); }
// A pipe has room again when one of its pages is empty, and a read may give less than a page.
static void drain(void) {
  static char block[1 << 16];
  for (long total = 0, n; total < 4096; total += n) CHECK((n = read(a[0], block, sizeof block)) > 0);
}

static void make_sockets(void) { CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, b) == 0); }
static void close_sockets(void) { close(b[0]), close(b[1]); }
static long wait_recv(void) {
  char text[16];
  struct iovec part = {text, sizeof text};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  return recvmsg(b[0], &message, 0) * 100 + text[0];
}
static void send_it(void) { CHECK(send(b[1], "hi", 2, 0) == 2); }
static long wait_all(void) {
  char text[6] = "";
  long n = recv(b[0], text, 6, MSG_WAITALL);
  return n == 6 && !memcmp(text, "onetwo", 6);
}
static void send_twice(void) {
  CHECK(send(b[1], "one", 3, 0) == 3);
  compute(50000);
  CHECK(send(b[1], "two", 3, 0) == 3);
}

static void make_listener(void) {
  listener = socket(AF_INET, SOCK_STREAM, 0);
  address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  CHECK(listener >= 0 && bind(listener, (struct sockaddr*)&address, sizeof address) == 0 && listen(listener, 4) == 0);
  CHECK(getsockname(listener, (struct sockaddr*)&address, &(socklen_t){sizeof address}) == 0);
}
static long wait_accept(void) {
  struct sockaddr_in peer;
  socklen_t size = sizeof peer;
  int client = accept(listener, (struct sockaddr*)&peer, &size);
  char text[8] = "";
  CHECK(client >= 0 && read_all(client, text, 5));
  close(client);
  return text[0] * 10 + (peer.sin_family == AF_INET);
}
static void connect_to_it(void) {
  int client = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(client, (struct sockaddr*)&address, sizeof address) == 0);
  compute(50000);
  CHECK(write(client, "hello", 5) == 5);
  close(client);
}
static void close_listener(void) { close(listener); }

// connect of a Unix socket sleeps while the queue of the listener is full.
static void make_full_listener(void) {
  struct sockaddr_un name = {AF_UNIX, "\0thr_block"};
  snprintf(name.sun_path + 1, 50, "thr_block.%d", getpid());
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr*)&name, sizeof name) == 0 && listen(listener, 0) == 0);
  fd = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(connect(fd, (struct sockaddr*)&name, sizeof name) == 0);
}
static long wait_connect(void) {
  struct sockaddr_un name = {AF_UNIX, "\0thr_block"};
  snprintf(name.sun_path + 1, 50, "thr_block.%d", getpid());
  fd2 = socket(AF_UNIX, SOCK_STREAM, 0);
  return connect(fd2, (struct sockaddr*)&name, sizeof name);
}
static void accept_one(void) {
  int client = accept(listener, 0, 0);
  CHECK(client >= 0);
  close(client);
}
static void close_full_listener(void) { close(listener), close(fd), close(fd2); }

static void nothing(void) {}
static long wait_nanosleep(void) {
  struct timespec time = {0, 10000000}, rest = {7, 7};
  long result = nanosleep(&time, &rest);
  return result * 10 + rest.tv_sec;
}
static long wait_clock(void) {
  struct timespec until = after_us(CLOCK_REALTIME, 10000);
  long result = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0);
  return result * 10 + (now_ns(CLOCK_REALTIME) >= until.tv_sec * 1000000000 + until.tv_nsec);
}
static void make_semaphore(void) { CHECK(sem_init(&semaphore, 0, 0) == 0); }
static long wait_semaphore(void) {
  struct timespec until = after_us(CLOCK_REALTIME, 10000);
  return sem_timedwait(&semaphore, &until) == -1 ? errno : 0;
}
static long wait_poll_time(void) { return poll(0, 0, 10); }
static long wait_select_time(void) {
  struct timeval time = {0, 10000};
  return select(0, 0, 0, 0, &time);
}
static long wait_epoll_time(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event;
  long n = epoll_wait(epoll, &event, 1, 10);
  close(epoll);
  return n;
}

static void make_file(void) {
  fd = open("locked", O_RDWR | O_CREAT | O_TRUNC, 0600);
  fd2 = open("locked", O_RDWR);
  CHECK(fd >= 0 && fd2 >= 0 && flock(fd, LOCK_EX) == 0);
}
static long wait_flock(void) { return flock(fd2, LOCK_EX); }
static void unlock_file(void) { CHECK(flock(fd, LOCK_UN) == 0); }
static void close_file(void) { close(fd), close(fd2), unlink("locked"); }
static struct flock whole(short type) { return (struct flock){.l_type = type, .l_whence = SEEK_SET}; }
static void make_ofd(void) {
  make_file();
  unlock_file();
  struct flock lock = whole(F_WRLCK);
  CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
}
static long wait_ofd(void) {
  struct flock lock = whole(F_WRLCK);
  return fcntl(fd2, F_OFD_SETLKW, &lock);
}
static void unlock_ofd(void) {
  struct flock lock = whole(F_UNLCK);
  CHECK(fcntl(fd, F_OFD_SETLK, &lock) == 0);
}

static void make_signalfd(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  fd = signalfd(-1, &set, SFD_CLOEXEC);
  CHECK(fd >= 0);
}
static long wait_signalfd(void) {
  struct signalfd_siginfo info;
  CHECK(read(fd, &info, sizeof info) == sizeof info);
  return info.ssi_signo * 100 + (unsigned)info.ssi_int;
}
static void queue_signal(void) { CHECK(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 33}) == 0); }
static void close_fd(void) { close(fd); }
// … to the thread itself, which is who may read it.
static pthread_t waiter;
static long wait_own_signalfd(void) {
  struct signalfd_siginfo info;
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, -1) == 1 && read(fd, &info, sizeof info) == sizeof info);
  return info.ssi_signo * 100 + (unsigned)info.ssi_int;
}
static void queue_to_waiter(void) {
  OK0(pthread_sigqueue(waiter, SIGUSR1, (union sigval){.sival_int = 44}));
}
static long wait_sigwaitinfo(void) {
  sigset_t set;
  siginfo_t info;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  int signo = sigwaitinfo(&set, &info);
  return signo * 100 + info.si_value.sival_int;
}

static void make_eventfd(void) { CHECK((fd = eventfd(0, 0)) >= 0); }
static long wait_eventfd(void) {
  uint64_t value;
  CHECK(read(fd, &value, 8) == 8);
  return (long)value;
}
static void post_eventfd(void) { CHECK(eventfd_write(fd, 41) == 0); }
static void make_timerfd(void) {
  CHECK((fd = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0);
  struct itimerspec time = {{0, 0}, {0, 10000000}};
  CHECK(timerfd_settime(fd, 0, &time, 0) == 0);
}
static void make_fifo(void) { CHECK(mkfifo("fifo", 0600) == 0); }
static long wait_fifo(void) {
  char text[8] = "";
  int reader = open("fifo", O_RDONLY);
  CHECK(reader >= 0 && read_all(reader, text, 4));
  close(reader);
  return text[3];
}
static void open_fifo(void) {
  int writer = open("fifo", O_WRONLY);
  CHECK(writer >= 0);
  compute(50000);
  CHECK(write(writer, "fifo", 4) == 4);
  close(writer);
}
static void remove_fifo(void) { unlink("fifo"); }

static void make_child(void) {
  make_pipe();
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    char byte;
    _exit(read(a[0], &byte, 1) == 1 ? 23 : 1);
  }
}
static long wait_child(void) {
  int status;
  CHECK(wait4(child, &status, 0, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}
static long wait_id(void) {
  siginfo_t info;
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED) == 0);
  return info.si_status * 10 + (info.si_code == CLD_EXITED);
}

static void make_watch(void) {
  fd = open("watched", O_WRONLY | O_CREAT, 0600);
  watched = inotify_init1(0);
  CHECK(fd >= 0 && watched >= 0 && inotify_add_watch(watched, "watched", IN_MODIFY) >= 0);
}
static long wait_watch(void) {
  char block[400];
  CHECK(read(watched, block, sizeof block) > 0);
  return ((struct inotify_event*)block)->mask;
}
static void write_watched(void) { CHECK(write(fd, "x", 1) == 1); }
static void close_watch(void) { close(fd), close(watched), unlink("watched"); }

static int sysv;
struct Message {
  long type;
  char text[8];
};
static void make_messages(void) { CHECK((sysv = msgget(IPC_PRIVATE, 0600)) >= 0); }
static long wait_message(void) {
  struct Message message;
  CHECK(msgrcv(sysv, &message, 8, 5, 0) == 3);
  return message.type * 1000 + message.text[0];
}
static void send_messages(void) {
  struct Message message = {4, "no"};
  CHECK(msgsnd(sysv, &message, 3, 0) == 0);
  message = (struct Message){5, "ok"};
  CHECK(msgsnd(sysv, &message, 3, 0) == 0);
}
static void remove_messages(void) { CHECK(msgctl(sysv, IPC_RMID, 0) == 0); }
static void make_sysv_semaphore(void) { CHECK((sysv = semget(IPC_PRIVATE, 1, 0600)) >= 0); }
static long wait_sysv_semaphore(void) { return semop(sysv, &(struct sembuf){0, -2, 0}, 1); }
static void post_sysv_semaphore(void) {
  CHECK(semop(sysv, &(struct sembuf){0, 1, 0}, 1) == 0);
  compute(50000);
  CHECK(semop(sysv, &(struct sembuf){0, 1, 0}, 1) == 0);
}
static void remove_sysv_semaphore(void) { CHECK(semctl(sysv, 0, IPC_RMID) == 0); }
static mqd_t mq;
static void make_mq(void) {
  char name[50];
  snprintf(name, sizeof name, "/thr_block.%d", getpid());
  struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 16};
  mq = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
  CHECK(mq != (mqd_t)-1 && mq_unlink(name) == 0);
}
static long wait_mq(void) {
  char text[16];
  unsigned priority;
  CHECK(mq_receive(mq, text, sizeof text, &priority) == 4);
  return priority * 1000 + (unsigned char)text[0];
}
static void send_mq(void) { CHECK(mq_send(mq, "mail", 4, 9) == 0); }
static void close_mq(void) { mq_close(mq); }

static const struct Case {
  const char* name;
  void (*prepare)(void);
  long (*wait)(void);
  void (*release)(void);
  void (*finish)(void);
} cases[] = {
    {"read of a pipe", make_pipe, wait_read, write_byte, close_pipe},
    {"write to a full pipe", fill_pipe, wait_write, drain, close_pipe},
    {"poll", make_pipe, wait_poll, write_byte, close_pipe},
    {"select", make_pipe, wait_select, write_byte, close_pipe},
    {"epoll", make_pipe, wait_epoll, write_byte, close_pipe},
    {"recvmsg", make_sockets, wait_recv, send_it, close_sockets},
    {"recv of all", make_sockets, wait_all, send_twice, close_sockets},
    {"accept", make_listener, wait_accept, connect_to_it, close_listener},
    {"connect", make_full_listener, wait_connect, accept_one, close_full_listener},
    {"nanosleep", nothing, wait_nanosleep, nothing, nothing},
    {"clock_nanosleep", nothing, wait_clock, nothing, nothing},
    {"sem_timedwait", make_semaphore, wait_semaphore, nothing, nothing},
    {"poll with a timeout", nothing, wait_poll_time, nothing, nothing},
    {"select with a timeout", nothing, wait_select_time, nothing, nothing},
    {"epoll with a timeout", nothing, wait_epoll_time, nothing, nothing},
    {"flock", make_file, wait_flock, unlock_file, close_file},
    {"lock of a file", make_ofd, wait_ofd, unlock_ofd, close_file},
    {"signalfd", make_signalfd, wait_signalfd, queue_signal, close_fd},
    {"signalfd of a thread", make_signalfd, wait_own_signalfd, queue_to_waiter, close_fd},
    {"sigwaitinfo", nothing, wait_sigwaitinfo, queue_signal, nothing},
    {"eventfd", make_eventfd, wait_eventfd, post_eventfd, close_fd},
    {"timerfd", make_timerfd, wait_eventfd, nothing, close_fd},
    {"open of a fifo", make_fifo, wait_fifo, open_fifo, remove_fifo},
    {"wait4", make_child, wait_child, write_byte, close_pipe},
    {"waitid", make_child, wait_id, write_byte, close_pipe},
    {"inotify", make_watch, wait_watch, write_watched, close_watch},
    {"msgrcv", make_messages, wait_message, send_messages, remove_messages},
    {"semop", make_sysv_semaphore, wait_sysv_semaphore, post_sysv_semaphore, remove_sysv_semaphore},
    {"mq_receive", make_mq, wait_mq, send_mq, close_mq},
};

static void* blocker(void* argument) {
  entered = 1;
  long result = ((const struct Case*)argument)->wait();
  returned = 1;
  return (void*)result;
}
// Computes until the blocker is through.
static void* computer(void* argument) {
  while (!returned) {
    compute(2000);
    progress++;
  }
  return 0;
}

int main(int argc, char** argv) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  OK0(pthread_sigmask(SIG_BLOCK, &set, 0));
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (argc > 1 && strcmp(argv[1], cases[i].name)) continue;
    cases[i].prepare();
    entered = returned = progress = 0;
    pthread_t first = waiter = start(blocker, (void*)&cases[i]);
    pthread_t second = start(computer, 0);
    while (!entered) sched_yield();
    // The computing thread goes on for a while, then the call is let go.
    while (progress < 20 && !returned) sleep_us(300);
    cases[i].release();
    printf("%s: %ld\n", cases[i].name, join(first));
    join(second);
    // A wait that ends by itself may be over before the other thread has begun.
    CHECK(cases[i].release == nothing || progress >= 20);
    cases[i].finish();
  }
  return 0;
}
