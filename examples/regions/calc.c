/* A desk calculator with a bug that bc 1.06 had. Its input is translated to byte code, which is executed then; instructions
 * take their operands from a stack and put their results back. session.sh finds the bug with two debug regions.
 *
 *     a = 1; print a * 2; for (i = 0; i < 10; i = i + 1) { a = a * 2; if (100 < a) break; } print a;
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct num {
  long value;
};
struct entry {
  struct num num;
  struct entry *next;
};

static char code[4096]; /* the program */
static int code_size;
static struct entry *stack;
static struct num variables[26];
static long obase = 10;
static const char *input;

/* Digits of any base, by a function that puts them somewhere. */
void out_num(const struct num *n, void (*put)(int)) {
  char digits[65];
  int count = 0;
  unsigned long rest = n->value < 0 ? -(unsigned long)n->value : (unsigned long)n->value;
  if (n->value < 0) put('-');
  do {
    digits[count++] = "0123456789abcdef"[rest % (unsigned long)obase];
    rest /= (unsigned long)obase;
  } while (rest);
  while (count) put(digits[--count]);
}

static void put_char(int c) {
  putchar(c);
}

static void push(long value) {
  struct entry *e = malloc(sizeof *e);
  e->num.value = value;
  e->next = stack;
  stack = e;
}

static long pop(void) {
  struct entry *e = stack;
  long value = e->num.value;
  stack = e->next;
  free(e);
  return value;
}

/* --- translation --- */

static void emit(int c) {
  code[code_size++] = (char)c;
}

static int emit_address(int address) {
  memcpy(code + code_size, &address, sizeof address);
  code_size += (int)sizeof address;
  return code_size - (int)sizeof address;
}

static void patch(int at) {
  memcpy(code + at, &code_size, sizeof code_size);
}

static int next(void) {
  while (isspace((unsigned char)*input)) input++;
  return *input;
}

static int accept(const char *word) {
  next();
  if (strncmp(input, word, strlen(word)) != 0) return 0;
  input += strlen(word);
  return 1;
}

static void expect(const char *word) {
  if (accept(word)) return;
  fprintf(stderr, "calc: '%s' is missing before '%.20s'\n", word, input);
  exit(1);
}

static void expression(void);

static void operand(void) {
  if (accept("(")) {
    expression();
    expect(")");
  } else if (isdigit(next())) {
    emit('n');
    emit_address((int)strtol(input, (char **)&input, 10));
  } else {
    emit('l');
    emit(*input++ - 'a');
  }
}

static void expression(void) {
  operand();
  while (next() && strchr("+-*<", *input)) {
    int op = *input++;
    operand();
    emit(op);
  }
}

static void assignment(void) {
  int variable = next() - 'a';
  input++;
  expect("=");
  expression();
  emit('s');
  emit(variable);
}

static int breaks[16], break_count;

static void statement(void) {
  next();
  if (accept("{")) {
    while (!accept("}")) statement();
  } else if (accept("print")) {
    expression();
    emit('p');
    expect(";");
  } else if (accept("break")) {
    emit('j');
    breaks[break_count++] = emit_address(0);
    expect(";");
  } else if (accept("if")) {
    expect("(");
    expression();
    expect(")");
    emit('z');
    int over = emit_address(0);
    statement();
    patch(over);
  } else if (accept("for")) {
    expect("(");
    assignment();
    expect(";");
    int condition = code_size;
    if (next() != ';') expression();
    expect(";");
    emit('z');
    int end = emit_address(0);
    emit('j');
    int body = emit_address(0);
    int step = code_size;
    assignment();
    expect(")");
    emit('j');
    emit_address(condition);
    patch(body);
    statement();
    emit('j');
    emit_address(step);
    patch(end);
    while (break_count) patch(breaks[--break_count]);
  } else {
    assignment();
    expect(";");
  }
}

/* --- execution --- */

static int address_at(int pc) {
  int address;
  memcpy(&address, code + pc, sizeof address);
  return address;
}

static void execute(void) {
  int pc = 0;
  while (pc < code_size) {
    int inst = code[pc++];
    long a, b;
    switch (inst) {
      case 'n':
        push(address_at(pc));
        pc += 4;
        break;
      case 'l':
        push(variables[(int)code[pc++]].value);
        break;
      case 's':
        variables[(int)code[pc++]].value = pop();
        break;
      case 'p': {
        struct num n = {pop()};
        out_num(&n, put_char);
        putchar('\n');
        break;
      }
      case 'z': /* branch if zero */
        pc = pop() == 0 ? address_at(pc) : pc + 4;
        break;
      case 'j':
        pc = address_at(pc);
        break;
      default:
        b = pop(), a = pop();
        push(inst == '+' ? a + b : inst == '-' ? a - b : inst == '*' ? a * b : a < b);
        break;
    }
  }
}

int main(int argc, char **argv) {
  static char text[10000];
  FILE *from = argc > 1 ? fopen(argv[1], "r") : stdin;
  if (!from) return 1;
  text[fread(text, 1, sizeof text - 1, from)] = 0;
  for (input = text; next();) statement();
  execute();
  return 0;
}
