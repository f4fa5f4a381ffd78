/* clang-format off */ /* its macros open what others close */
/* Debug code in a program's own source: run by `backstep probe` inside of a recorded run, and by nobody else.
 *
 *     #include <backstep/debug.h>
 *
 *     BACKSTEP_GLOBAL
 *     static int deepest;
 *     BACKSTEP_GLOBAL_END
 *
 *     int parse(struct state *s) {
 *       …
 *       BACKSTEP_BEGIN
 *         if (s->depth > deepest) printf("%d at %s\n", deepest = s->depth, s->at);
 *       BACKSTEP_END
 *       s->depth++;
 *
 * Statements between BACKSTEP_BEGIN and BACKSTEP_END are a debug region: they see what can be seen at that place. What
 * several regions need, functions and variables, stands outside of functions between BACKSTEP_GLOBAL and
 * BACKSTEP_GLOBAL_END, or in files of its own that are given to `backstep probe`, too; #include lines that only debug code
 * needs between `#ifdef BACKSTEP_PROBE` and `#endif`.
 *
 * In an ordinary build all of it is nothing: it becomes the argument of an attribute that compilers do not know, which may
 * be anything in which brackets match. The machine code is the same as without. (C compilers other than gcc that know no
 * such attributes read regions as the operand of a sizeof, so they have to make sense there; write #ifdef BACKSTEP_PROBE
 * around BACKSTEP_GLOBAL.) rdb_begin and rdb_end say the same as BACKSTEP_BEGIN and BACKSTEP_END. */
#ifndef BACKSTEP_DEBUG_H
#define BACKSTEP_DEBUG_H

#ifndef BACKSTEP_PROBE /* the ordinary build */

#if defined __cplusplus
#define BACKSTEP_NOTHING_ [[backstep::debug(
#elif defined __GNUC__ && (!defined __clang__ || __clang_major__ >= 17)
#define BACKSTEP_NOTHING_ [[backstep_debug(
#endif

#ifdef BACKSTEP_NOTHING_
#define BACKSTEP_QUIET_                                                                  \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wattributes\"") \
      _Pragma("GCC diagnostic ignored \"-Wpedantic\"")
#define BACKSTEP_BEGIN { BACKSTEP_QUIET_ BACKSTEP_NOTHING_
#define BACKSTEP_END )]]; _Pragma("GCC diagnostic pop") }
#define BACKSTEP_GLOBAL BACKSTEP_QUIET_ BACKSTEP_NOTHING_
#define BACKSTEP_GLOBAL_END )]]; _Pragma("GCC diagnostic pop")
#else
#define BACKSTEP_BEGIN (void)sizeof(({
#define BACKSTEP_END 0; }));
#endif

#else /* compiled by `backstep probe` */

#include <backstep/probe_abi.h>
#include <stddef.h>

#define BACKSTEP_GLOBAL
#define BACKSTEP_GLOBAL_END
#define BACKSTEP_BEGIN backstep_region_begin
#define BACKSTEP_END backstep_region_end

#ifdef __cplusplus
extern "C" {
#endif

/* Where the recorded run is. */
void backstep_now(struct backstep_registers *to);
/* The session stops here; without one the replay ends here. */
void backstep_stop(const char *why);
/* A bookmark. */
void backstep_mark(const char *name);
/* A line of --json: one JSON value. */
void backstep_log(const char *json);
/* Where the recorded program is: program counters, innermost first (behind the call, but for the first one), at most
 * `most`; how many these are. */
size_t backstep_stack(uint64_t *to, size_t most);
/* The same as text, "function (file.c:12)" on a line each, as far as it has room; how many there are. */
size_t backstep_stack_text(char *to, size_t size);

/* Callbacks: from the end of the region (or function) that asks for it on, `f` is called whenever this happens in the
 * recorded run: a function is entered, or left; a system call is about to be made, or has been; memory is read or written
 * to; a multiple of so many ticks is reached; a line is come to. What they return is for backstep_off; negative: it is not
 * possible, and the reason is said. Constructors of global variables (in C: __attribute__((constructor))) can ask for
 * callbacks that are there from the beginning. */
typedef void (*backstep_callback)(const struct backstep_registers *r, void *cookie);
int backstep_on_call(const char *function, backstep_callback f, void *cookie);
int backstep_on_return(const char *function, backstep_callback f, void *cookie);
int backstep_on_syscall(long number, int after, backstep_callback f, void *cookie); /* number -1: any */
int backstep_on_read(const void *address, size_t size, backstep_callback f, void *cookie);
int backstep_on_write(const void *address, size_t size, backstep_callback f, void *cookie);
int backstep_on_tick(uint64_t every, backstep_callback f, void *cookie);
int backstep_on_line(const char *place, backstep_callback f, void *cookie); /* "file.c:12" */
/* Any simple event of `backstep events`, with a condition, if it has one: "call malloc if $arg0 > 4096", "signal SEGV" */
int backstep_on_event(const char *event, backstep_callback f, void *cookie);
void backstep_off(int id);
/* Called at the end of the stretch of the run that is probed, or where backstep_stop has ended it: for reports. */
void backstep_at_end(backstep_callback f, void *cookie);

#ifdef __cplusplus
}

#if __cplusplus >= 201103L
namespace backstep {

enum When { before, after };

/* What a callback is told. */
struct Event {
  const backstep_registers *r;
  uint64_t tick() const { return r->tick; }
  uint64_t pc() const { return r->rip; }
  uint64_t thread() const { return r->thread; }
  /* Integers and pointers that a function was called with, 0 to 5; of a system call likewise. */
  uint64_t arg(int n) const { return r->gpr[("\7\6\2\1\10\11")[n]]; }
  uint64_t syscall_arg(int n) const { return r->gpr[("\7\6\2\12\10\11")[n]]; }
  uint64_t result() const { return r->value[1]; }
  uint64_t address() const { return r->address; }
  /* Of memory: the first bytes that are there, and were there before. */
  uint64_t old_value() const { return r->value[0]; }
  uint64_t new_value() const { return r->value[1]; }
  uint64_t number() const { return r->number; }
};

/* A callback that can be taken back; when this goes, it stays. */
class Callback {
 public:
  Callback() = default;
  explicit Callback(int id) : id_(id) {}
  /* Was it possible? */
  explicit operator bool() const { return id_ > 0; }
  void remove() {
    if (id_ > 0) backstep_off(id_);
    id_ = 0;
  }
  int id() const { return id_; }

 private:
  int id_ = 0;
};

struct Stack {
  uint64_t pc[256];
  size_t count;
  const uint64_t *begin() const { return pc; }
  const uint64_t *end() const { return pc + count; }
  size_t size() const { return count; }
  uint64_t operator[](size_t n) const { return pc[n]; }
  /* A line for each frame. Of the stack of the present. */
  const char *text() const {
    static char lines[65536];
    backstep_stack_text(lines, sizeof lines);
    return lines;
  }
};

inline backstep_registers now() {
  backstep_registers r;
  backstep_now(&r);
  return r;
}
inline void stop(const char *why) {
  backstep_stop(why);
}
inline void mark(const char *name) {
  backstep_mark(name);
}
inline void log(const char *json) {
  backstep_log(json);
}
template <class Text>
inline auto log(const Text &json) -> decltype(json.c_str(), void()) {
  backstep_log(json.c_str());
}
inline Stack stack() {
  Stack s;
  s.count = backstep_stack(s.pc, sizeof s.pc / sizeof *s.pc);
  return s;
}

namespace detail {
template <class F>
auto call(F &f, const Event &e, int) -> decltype(f(e), void()) {
  f(e);
}
template <class F>
auto call(F &f, const Event &, long) -> decltype(f(), void()) {
  f();
}
template <class F>
void run(const backstep_registers *r, void *cookie) {
  Event e = {r};
  call(*static_cast<F *>(cookie), e, 0);
}
}  // namespace detail

/* `f` is anything that can be called with an Event, or with nothing; it is kept. */
template <class F>
Callback on_call(const char *function, F f) {
  return Callback(backstep_on_call(function, detail::run<F>, new F(f)));
}
template <class F>
Callback on_return(const char *function, F f) {
  return Callback(backstep_on_return(function, detail::run<F>, new F(f)));
}
template <class F>
Callback on_syscall(long number, When when, F f) {
  return Callback(backstep_on_syscall(number, when == after, detail::run<F>, new F(f)));
}
template <class F>
Callback on_read(const void *address, size_t size, F f) {
  return Callback(backstep_on_read(address, size, detail::run<F>, new F(f)));
}
template <class F>
Callback on_write(const void *address, size_t size, F f) {
  return Callback(backstep_on_write(address, size, detail::run<F>, new F(f)));
}
template <class F>
Callback on_tick(uint64_t every, F f) {
  return Callback(backstep_on_tick(every, detail::run<F>, new F(f)));
}
template <class F>
Callback on_line(const char *place, F f) {
  return Callback(backstep_on_line(place, detail::run<F>, new F(f)));
}
template <class F>
Callback on_event(const char *event, F f) {
  return Callback(backstep_on_event(event, detail::run<F>, new F(f)));
}
template <class F>
void at_end(F f) {
  backstep_at_end(detail::run<F>, new F(f));
}
inline void off(Callback callback) {
  callback.remove();
}

}  // namespace backstep
#endif
#endif

#endif

#define rdb_begin BACKSTEP_BEGIN
#define rdb_end BACKSTEP_END

#endif
