// Typed values while an expression is compiled: what C does with them, as bytecode.
#pragma once
#include <string>

#include "symbols/expression_code.h"
#include "symbols/types.h"
#include "symbols/variables.h"

namespace backstep::symbols {

// A value or a place of a type. What is not in memory may still have parts (members of a struct in
// registers).
struct Operand {
  const Type* type = nullptr;
  Storage storage = {};
  // A bit-field: `unit` bytes are there, of which these bits count.
  uint8_t bit_size = 0, bit_shift = 0, unit = 0;
  std::string name = {};  // as the user knows it: "p->next"
  size_t column = 0;
  bool is_int = false;   // an enumerator of C, which is shown by its name and calculated with as an int
  bool is_text = false;  // a text in quotes
  std::string text = {};
};

// The value is nowhere: not an error, but an answer.
struct OptimizedOut {
  size_t column;
  std::string name, why;
};

// `size` bytes of it, `offset` bytes into it.
Storage slice(const Storage& storage, uint64_t offset, uint64_t size);

// A word on the stack, extended to 64 bits as its type says; floats as their bits.
struct Word {
  const Type* type = nullptr;
  Code code = {};
};

// The rules of C for words. Types::… are where results' types are from.
class Arithmetic {
 public:
  explicit Arithmetic(Types& types) : types_(types) {}

  // As the operand of an operator: small integers become int. `bits`: of a bit-field.
  Word promoted(Word word, unsigned bits = 0);
  Word converted(Word word, const Type* to);
  const Type* common(const Type* a, const Type* b);  // of promoted words
  // The value is not 0, as a word that is 0 or not.
  Code truth(const Word& word);

  Word add_sub_mul_div(const std::string& op, Word a, Word b);
  Word bits(const std::string& op, Word a, Word b);  // % & | ^
  Word shift(const std::string& op, Word a, Word b);
  Word compare(const std::string& op, Word a, Word b);
  Word negated(Word word);
  Word logical(bool both, const Word& a, const Word& b);
  Word choice(const Word& condition, Word yes, Word no);  // of one type

 private:
  Code as_double(const Word& word);
  Types& types_;
};

}  // namespace backstep::symbols
