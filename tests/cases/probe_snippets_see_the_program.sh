#!/usr/bin/env bash
# Snippets are compiled from debug information alone, and find variables, members, globals, thread-locals and functions of the
# program where they are: of C++ with bases, virtual functions, templates, bit-fields and the library's containers; of C,
# optimised. (The modules are run natively here, in gdb.)
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >shapes.cc <<'CC'
#include <cstdio>
#include <map>
#include <string>
#include <vector>
namespace geo {
enum class Kind { Round, Square };
enum Colour { RED, GREEN = 5 };
struct Flags { unsigned a : 3; unsigned b : 5; int c : 7; unsigned long wide : 40; };
union Any { int i; char text[12]; };
struct Shape {
  explicit Shape(int id) : id_(id) {}
  virtual ~Shape() {}
  virtual double area() const = 0;
  virtual const char *name() const { return "shape"; }
  int id() const;
 protected:
  int id_;
  char tag_ = 'x';
};
class Circle : public Shape {
 public:
  Circle(int id, double r) : Shape(id), radius_(r) {}
  double area() const override { return 3 * radius_ * radius_; }
  const char *name() const override { return "circle"; }
  void grow(double by);
 private:
  char small_ = 's';
  double radius_;
};
template <class T> struct Box { T value; std::vector<T> history; void put(T v); };
struct Item {
  std::string label;
  std::map<std::string, int> counts;
  Flags flags;
  Any any;
  Kind kind;
  Colour colour;
  struct Inner { int deep; Item *up; } inner;
  int (*callback)(int, const Item &);
  int Flags::*none[2];
  int matrix[2][3];
  Shape *shape;
};
int total = 7;
static int hidden = 3;
thread_local int per_thread = 11;
int Shape::id() const { return id_; }
void Circle::grow(double by) {
  radius_ += by;
  total += int(radius_);  // GROW
  hidden += total;
  per_thread++;
}
template <class T> __attribute__((noinline)) void Box<T>::put(T v) {
  history.push_back(value);  // PUT
  value = v;
}
int twice(int x, const Item &i) { return x * 2 + i.flags.b; }
static void fill(Item &item, const std::string &text, int n) {
  for (int k = 0; k < n; k++) {
    item.counts[text + std::to_string(k)] = k;
    item.flags.b = k * 2;
    item.matrix[k % 2][k % 3] += k;
  }
  item.inner.deep = n;  // FILL
}
}
int main() {
  using namespace geo;
  Item item{};
  item.label = "the label";
  item.kind = Kind::Square;
  item.colour = GREEN;
  item.callback = twice;
  Circle c(42, 2.5);
  item.shape = &c;
  fill(item, "key", 4);
  c.grow(1.5);
  Box<int> b{1, {}};
  b.put(5);
  Box<std::string> s{"a", {}};
  s.put("bee");
  return hidden & 1;
}
CC
cat >walk.c <<'C'
#include <stdio.h>
#include <stdlib.h>
struct node { struct node *next; int class; char name[8]; double weight; };
static struct node *first;
static unsigned long visits;
static const long limits[2] = {2, 50};
static const char *const words[][2] = {{"no", "yes"}};
static int heavy(const struct node *n) { return n->weight > 2; }
__attribute__((noinline)) static long walk(struct node *n, long start) {
  long sum = start;
  for (; n; n = n->next) {
    visits++;
    sum += n->class;
    if (heavy(n) && visits < limits[1]) visits += 10;
  }
  return sum;
}
int main(int argc, char **argv) {
  for (int i = 0; i < 3; i++) {
    struct node *n = calloc(1, sizeof *n);
    n->class = i * 7, n->weight = i + argc, n->next = first, first = n;
    snprintf(n->name, sizeof n->name, "n%d", i);
  }
  return walk(first, argc) > 100 && words[0][argc & 1][0] == 'n';
}
C
line() { grep -n "$2" "$1" | head -n 1 | cut -d: -f1; }
# run PROGRAM ARG...: what the module prints when PROGRAM runs; ARG... are those of probe.
run() {
  local program=$1
  shift
  expect 0 "$BACKSTEP" probe --compile --json --output module "$@" "$program"
  cp out report
  PROBE_MODULE=module PROBE_REPORT=report PROBE_OUT=printed timeout "$PATIENCE" \
    gdb -batch -nx -x "$SRC/tests/cases/probe_native.py" "./$program" >gdb.log 2>&1 || { cat gdb.log >&2; fail "gdb"; }
  grep -q "Error\|error" gdb.log && { cat gdb.log >&2; fail "the module does not run"; }
  return 0
}
g++ -g -O0 -no-pie -o shapes shapes.cc
expect 0 "$BACKSTEP" record -q -o "$T/recordings/shapes" ./shapes
run shapes --at "shapes.cc:$(line shapes.cc FILL)" 'printf("%s %d %zu %u %s\n", item.label.c_str(), n, item.counts.size(), item.flags.b, text.c_str());
    for (auto &[k, v] : item.counts) printf("%s=%d ", k.c_str(), v);
    printf("%g %s %d %d\n", item.shape->area(), item.shape->name(), item.matrix[1][0], item.callback(4, item));
    if (item.kind == Kind::Square && item.colour == GREEN) printf("%d %d %d %d\n", total, hidden, per_thread, twice(3, item));
    fflush(stdout);' \
  --at "shapes.cc:$(line shapes.cc GROW)" 'printf("%d %d %g %g %d %s %c\n", id(), id_, radius_, by, geo::total, name(), this->tag_);' \
  --at "shapes.cc:$(line shapes.cc PUT)" 'static std::map<int, int> sizes; static int n; sizes[++n]++; printf("%d %zu\n", n, history.size()); fflush(stdout);'
cat >wanted <<'EOT'
the label 4 4 6 key
key0=0 key1=1 key2=2 key3=3 18.75 circle 3 14
7 3 11 12
42 42 4 1.5 7 circle x
1 0
1 0
EOT
diff wanted printed >&2 || fail "what C++ prints"
gcc -g -O2 -no-pie -o walk walk.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/walk" ./walk
run walk --at "walk.c:$(line walk.c 'sum += n')" 'static int hits; auto name = [](struct node *m) -> char * { return m->name; };
    printf("%d: %s %d %g %s %ld %ld %lu\n", ++hits, name(n), n->class, n->weight, words[0][1], limits[0], sum, visits); fflush(stdout);'
cat >wanted <<'EOT'
1: n2 14 3 yes 2 1 1
2: n1 7 2 yes 2 15 12
3: n0 0 1 yes 2 22 13
EOT
diff <(sed 's/ [0-9]*$//' wanted) <(sed 's/ [0-9]*$//' printed) >&2 || fail "what C prints"
ok
