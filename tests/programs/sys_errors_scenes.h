// What needs more than one call, for sys_errors.c.
static void prepare_world(void) {
  int ends[2], pair[2];
  CHECK(pipe2(ends, O_NONBLOCK) == 0);
  pipe_read = ends[0], pipe_write = ends[1];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  unix_a = pair[0], unix_b = pair[1];
  event = eventfd(0, EFD_NONBLOCK);
  epoll = epoll_create1(0);
  struct epoll_event e = {EPOLLIN, {0}};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, event, &e) == 0);
  timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sa_family_t family = AF_UNIX;
  CHECK(bind(listener, (void*)&family, 2) == 0 && listen(listener, 1) == 0);
  queue = msgget(IPC_PRIVATE, 0600);
  semaphores = semget(IPC_PRIVATE, 1, 0600);
  CHECK(queue >= 0 && semaphores >= 0);
}
static void clean_world(void) {
  msgctl(queue, IPC_RMID, 0);
  semctl(semaphores, 0, IPC_RMID);
}
static void run_scenes(void) {}
