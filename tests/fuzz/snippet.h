// A snippet under construction: items laid out one after the other, with branches to each other.
#pragma once
#include <vector>

#include "generate.h"

namespace fuzz {

struct Snippet {
  Snippet(Generator& generator, Address start) : g(generator), at(start) {}

  void build();
  // Resolves the branches and writes the bytes. False: does not fit.
  bool finish(Case& c);

  std::vector<Item> items;

 private:
  Item& add(std::initializer_list<unsigned> bytes);
  void add_instruction();
  void add_control();
  void add_stack_play();
  void add_string_play();
  void add_store_to_code();
  void add_exit();
  void fuse();
  void branch(std::initializer_list<unsigned> bytes, unsigned width, unsigned target);
  void absolute64(unsigned fix_at, unsigned target);
  unsigned label(bool backward);
  unsigned slot_for(unsigned target);
  bool backward_allowed();
  void load_label(unsigned reg, unsigned target);

  Generator& g;
  Address at;
  uint64_t size = 0;
  unsigned body = 0;  // planned items of the main part; labels beyond are resolved at the end
  bool low() const { return at < 0x7000'0000; }

  struct Late {  // a reference to something that is laid down behind the exit
    unsigned item;
    enum Kind { Function, Pointer } kind;
    unsigned target;  // Pointer: the label that it holds
  };
  std::vector<Late> late;
};

}  // namespace fuzz
