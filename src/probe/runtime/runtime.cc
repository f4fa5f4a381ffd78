// What every debug module has besides the user's code: its main program, and the requests to the replay that
// runs it. Compiled by `backstep probe`, not with Backstep.
//
// The module begins as any program does, so its libraries and the constructors of its globals are ready when
// main() is called; main tells the replay, and never returns. From then on its functions are called from
// outside.
#include <backstep/debug.h>

#include <cxxabi.h>
#include <algorithm>
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
  return count < 0 ? 0 : std::min(most, static_cast<size_t>(count));
}
size_t backstep_stack_text(char* to, size_t size) {
  if (size) *to = 0;
  const long count = request(BACKSTEP_STACK, 0, 0, reinterpret_cast<long>(to), static_cast<long>(size));
  return count < 0 ? 0 : static_cast<size_t>(count);
}

// What is not possible the replay tells by itself, with the line of debug code that has asked.
static int on(int kind, const backstep_on& what, backstep_callback f, void* cookie) {
  return static_cast<int>(request(BACKSTEP_ON, kind, reinterpret_cast<long>(&what), reinterpret_cast<long>(f),
                                  reinterpret_cast<long>(cookie)));
}
int backstep_on_call(const char* function, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_CALL, {0, 0, 0, function}, f, cookie);
}
int backstep_on_return(const char* function, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_RETURN, {0, 0, 0, function}, f, cookie);
}
int backstep_on_syscall(long number, int after, backstep_callback f, void* cookie) {
  return on(after ? BACKSTEP_ON_SYSCALL_AFTER : BACKSTEP_ON_SYSCALL_BEFORE, {0, 0, number, nullptr}, f,
            cookie);
}
int backstep_on_read(const void* address, size_t size, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_READ, {reinterpret_cast<uint64_t>(address), size, 0, nullptr}, f, cookie);
}
int backstep_on_write(const void* address, size_t size, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_WRITE, {reinterpret_cast<uint64_t>(address), size, 0, nullptr}, f, cookie);
}
int backstep_on_tick(uint64_t every, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_TICK, {0, 0, static_cast<int64_t>(every), nullptr}, f, cookie);
}
int backstep_on_line(const char* place, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_LINE, {0, 0, 0, place}, f, cookie);
}
int backstep_on_event(const char* event, backstep_callback f, void* cookie) {
  return on(BACKSTEP_ON_EVENT, {0, 0, 0, event}, f, cookie);
}
void backstep_off(int id) {
  request(BACKSTEP_OFF, id);
}

// A place where a variable cannot be found after all (a thread-local one of a thread that has not used it
// yet).
void backstep_unknown(const char* name, const char* where) {
  std::fprintf(stderr, "backstep: %s: '%s' has no place in memory here, so this was left out\n", where, name);
}
// Variables of debug regions that later ones of the same call of a function use. A frame that lies below the
// present one is of a call that is over.
struct backstep_variable {
  unsigned number;
  uint64_t frame, thread;
  void* object;
  void (*destroy)(void*);
  backstep_variable* next;
};
static backstep_variable* variables;
static uint64_t present_frame, present_thread;

extern "C++" {
template <class F>
static void drop_if(F is_gone) {
  for (backstep_variable** at = &variables; *at;) {
    backstep_variable* const v = *at;
    if (!is_gone(*v)) {
      at = &v->next;
      continue;
    }
    *at = v->next;
    if (v->destroy) v->destroy(v->object);
    delete v;
  }
}
}  // extern "C++"
void backstep_new_frame(uint64_t frame, uint64_t thread) {
  if (variables) drop_if([=](const backstep_variable& v) { return v.thread == thread && v.frame <= frame; });
}
void backstep_set_frame(uint64_t frame, uint64_t thread) {
  present_frame = frame, present_thread = thread;
  if (variables) drop_if([=](const backstep_variable& v) { return v.thread == thread && v.frame < frame; });
}
void backstep_keep(unsigned number, void* object, void (*destroy)(void*)) {
  drop_if([=](const backstep_variable& v) {
    return v.number == number && v.frame == present_frame && v.thread == present_thread;
  });
  variables = new backstep_variable{number, present_frame, present_thread, object, destroy, variables};
}
void backstep_keep_copy(unsigned number, const void* object, unsigned long size) {
  void* const copy = std::malloc(size);
  std::memcpy(copy, object, size);
  backstep_keep(number, copy, std::free);
}
void* backstep_kept(unsigned number, const char* name, const char* where) {
  for (backstep_variable* v = variables; v; v = v->next)
    if (v->number == number && v->frame == present_frame && v->thread == present_thread) return v->object;
  char text[500];
  std::snprintf(
      text, sizeof text,
      "uses '%s', which has no value yet: the run has not come to the region that declares it, at %s, in "
      "this call of the function",
      name, where);
  request(BACKSTEP_FAIL, text_of(text), static_cast<long>(std::strlen(text)));
  for (;;) __builtin_trap();
}

// In the order in which they were asked for.
struct backstep_ending {
  backstep_callback f;
  void* cookie;
  backstep_ending* next;
};
static backstep_ending *first_ending, **last_ending = &first_ending;
void backstep_at_end(backstep_callback f, void* cookie) {
  *last_ending = new backstep_ending{f, cookie, nullptr};
  last_ending = &(*last_ending)->next;
}

// Called as a place is, when the replay is over.
void backstep_finish(const backstep_registers* r) {
  while (first_ending) {
    const backstep_ending e = *first_ending;
    if (!(first_ending = e.next)) last_ending = &first_ending;
    e.f(r, e.cookie);
  }
  std::fflush(nullptr);
}

// What functions return to. A thrown exception that nobody catches finds the end of the stack here (an
// unwinder looks at the byte in front of a return address), so the stack is still there when it is told of.
void backstep_done();
__asm__(
    ".text\n"
    ".type backstep_begin_of_stack, @function\n"
    "backstep_begin_of_stack:\n"
    ".cfi_startproc\n"
    ".cfi_undefined rip\n"
    "nop\n"
    ".globl backstep_done\n"
    ".type backstep_done, @function\n"
    "backstep_done:\n"
    "movl $0x42530001, %eax\n"
    "syscall\n"
    "jmp backstep_done\n"
    ".cfi_endproc\n");
static_assert(BACKSTEP_DONE == 0x42530001);

}  // extern "C"

// An exception that nobody catches, and the like.
__attribute__((noreturn)) static void ended() {
  char text[1000] = "calls std::terminate";
  if (const std::type_info* type = abi::__cxa_current_exception_type()) {
    char* name = abi::__cxa_demangle(type->name(), nullptr, nullptr, nullptr);
    const char* shown = name ? name : type->name();
    std::snprintf(text, sizeof text, "throws %s, which nobody catches", shown);
    try {
      throw;
    } catch (const std::exception& e) {
      std::snprintf(text, sizeof text, "throws %s (%s), which nobody catches", shown, e.what());
    } catch (...) {
    }
  }
  request(BACKSTEP_FAIL, text_of(text), static_cast<long>(std::strlen(text)));
  for (;;) __builtin_trap();
}

int main() {
  std::set_terminate(ended);
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  static const backstep_module module = {BACKSTEP_ABI, sizeof(backstep_module), backstep_done,
                                         backstep_finish};
  request(BACKSTEP_READY, reinterpret_cast<long>(&module));
  return 0;
}
