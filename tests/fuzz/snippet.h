// A snippet under construction: items laid out one after the other, with branches to each other.
//
//   main part    1 to 8 random instructions and pieces of control flow
//   exit         a jump to kExit, mostly
//   function     what calls call; ends in a return
//   pointers     what indirect jumps read
#pragma once
#include <initializer_list>
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
  // Labels are item numbers; one beyond the main part means the exit.
  static constexpr unsigned kFunction = 0x1000, kPointer = 0x2000;  // + number of the pointer

  Item& add(std::initializer_list<unsigned> bytes);
  Item& refer(std::initializer_list<unsigned> bytes, Item::Fix fix, unsigned target);
  void add_instruction();
  void add_control();
  void add_indirect();
  void add_stack_play();
  void add_string_play();
  void add_store_to_code();
  void add_exit();
  void fuse();
  unsigned label(unsigned span = 1);
  unsigned pointer_to(unsigned target);
  unsigned load_label(unsigned target);

  Generator& g;
  Address at;
  uint64_t size = 0;
  bool calls = false;
  std::vector<unsigned> pointers;
};

}  // namespace fuzz
