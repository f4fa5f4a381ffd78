// What every debug module has besides the user's code: its main program, and the requests to the replay that
// runs it. Compiled by `backstep probe`, not with Backstep.
//
// The module begins as any program does, so its libraries and the constructors of its globals are ready when
// main() is called; main tells the replay, and never returns. From then on its functions are called from
// outside.
#include <backstep/debug.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

extern "C" {

static long request(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}

static long text_of(const char* text) {
  return reinterpret_cast<long>(text);
}

void backstep_now(backstep_registers* to) {
  request(BACKSTEP_NOW, reinterpret_cast<long>(to));
}
void backstep_stop(const char* why) {
  std::fflush(stdout);
  request(BACKSTEP_STOP, text_of(why), static_cast<long>(std::strlen(why)));
}
void backstep_mark(const char* name) {
  request(BACKSTEP_MARK, text_of(name), static_cast<long>(std::strlen(name)));
}
void backstep_log(const char* json) {
  std::fflush(stdout);
  request(BACKSTEP_LOG, text_of(json), static_cast<long>(std::strlen(json)));
}
size_t backstep_stack(uint64_t* to, size_t most) {
  const long count =
      request(BACKSTEP_STACK, reinterpret_cast<long>(to), static_cast<long>(most * sizeof *to));
  return count < 0 ? 0 : static_cast<size_t>(count);
}

static int on(int kind, const backstep_on& what, backstep_callback f, void* cookie, const char* asked) {
  const long id = request(BACKSTEP_ON, kind, reinterpret_cast<long>(&what), reinterpret_cast<long>(f),
                          reinterpret_cast<long>(cookie));
  if (id < 0)
    std::fprintf(stderr, "backstep: %s is not possible: %s\n", asked, std::strerror(static_cast<int>(-id)));
  return static_cast<int>(id);
}
int backstep_on_call(const char* function, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_CALL, {0, 0, 0, function}, f, cookie, "on_call");
}
int backstep_on_return(const char* function, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_RETURN, {0, 0, 0, function}, f, cookie, "on_return");
}
int backstep_on_syscall(long number, int after, backstep_callback f, void* cookie) {
  return on(after ? BACKSTEP_ON_SYSCALL_AFTER : BACKSTEP_ON_SYSCALL_BEFORE, {0, 0, number, nullptr}, f,
            cookie, "on_syscall");
}
int backstep_on_read(const void* address, size_t size, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_READ, {reinterpret_cast<uint64_t>(address), size, 0, nullptr}, f, cookie, "on_read");
}
int backstep_on_write(const void* address, size_t size, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_WRITE, {reinterpret_cast<uint64_t>(address), size, 0, nullptr}, f, cookie,
            "on_write");
}
int backstep_on_tick(uint64_t every, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_TICK, {0, 0, static_cast<int64_t>(every), nullptr}, f, cookie, "on_tick");
}
int backstep_on_line(const char* place, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_LINE, {0, 0, 0, place}, f, cookie, "on_line");
}
void backstep_off(int id) {
  request(BACKSTEP_OFF, id);
}

// A place where a variable cannot be found after all (a thread-local one of a thread that has not used it
// yet).
void backstep_unknown(const char* name, const char* where) {
  std::fprintf(stderr, "backstep: %s: '%s' has no place in memory here, so this was left out\n", where, name);
}
// Called from the handler of an exception that leaves a region.
void backstep_uncaught(const char* where) {
  try {
    throw;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "backstep: %s: an exception left the debug code: %s: %s\n", where, typeid(e).name(),
                 e.what());
  } catch (...) {
    std::fprintf(stderr, "backstep: %s: an exception left the debug code\n", where);
  }
}

// Called as a place is, when the replay is over.
void backstep_finish(const backstep_registers*) {
  std::fflush(nullptr);
}

__attribute__((noreturn)) static void done() {
  for (;;) request(BACKSTEP_DONE);
}

}  // extern "C"

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  static const backstep_module module = {BACKSTEP_ABI, sizeof(backstep_module), done, backstep_finish};
  request(BACKSTEP_READY, reinterpret_cast<long>(&module));
  return 0;
}
