#include "symbols/expression_operand.h"

#include <algorithm>

namespace backstep::symbols {

using namespace replayer;
using Kind = Type::Kind;

// Of pieces, those that lie in the part that is wanted. A word can also be put together of parts of pieces.
Storage slice(const Storage& storage, uint64_t offset, uint64_t size) {
  switch (storage.kind) {
    case Storage::Kind::Memory: {
      Storage part = storage;
      part.code.offset(offset);
      return part;
    }
    case Storage::Kind::Value: {
      if (offset + size > 8) return {.why = "only a part of it is kept here"};
      Storage part = storage;
      if (offset) part.code.constant(offset * 8).op(kRshUnsigned);
      return part;
    }
    case Storage::Kind::Pieces: {
      Storage parts{.kind = Storage::Kind::Pieces};
      uint64_t at = offset;
      const uint64_t end = offset + size;
      for (const auto& piece : storage.pieces) {
        if (piece.offset + piece.size <= at || piece.offset >= end) continue;
        if (piece.offset > at || piece.kind == Storage::Kind::Gone) break;
        const uint64_t into = at - piece.offset, taken = std::min(piece.offset + piece.size, end) - at;
        Storage::Piece part{at - offset, taken, piece.kind, piece.code};
        if (piece.kind == Storage::Kind::Memory)
          part.code.offset(into);
        else if (into)
          part.code.constant(into * 8).op(kRshUnsigned);
        parts.pieces.push_back(part);
        at += taken;
      }
      if (at < end || parts.pieces.empty()) return {.why = "the compiler kept no value of this part here"};
      if (parts.pieces.size() == 1) return {.kind = parts.pieces[0].kind, .code = parts.pieces[0].code};
      return parts;
    }
    default:
      return storage.kind == Storage::Kind::Gone
                 ? storage
                 : Storage{.why = "it points to something that is not in memory"};
  }
}

// C++ promotes enums to int if that holds all of their values, C to what they are stored as. (Those with a
// type of their own, `enum e : unsigned`, DWARF does not tell from others.)
static bool promoted_to_int(const Type& t) {
  return t.kind == Kind::Enum && t.cpp && t.size == 4 &&
         std::all_of(t.enumerators.begin(), t.enumerators.end(),
                     [&](const auto& e) { return t.is_signed || e.value <= INT32_MAX; });
}

Word Arithmetic::promoted(Word word, unsigned bits) {
  const Type& t = *word.type;
  if (!t.integral()) return word;
  const bool narrow = t.size < 4 || t.kind == Kind::Bool || (bits && bits < 32) || promoted_to_int(t);
  const bool named = t.kind == Kind::Enum || t.kind == Kind::Char;
  if (narrow)
    word.type = types_.integer(4, true);
  else if (named)
    word.type = types_.integer(static_cast<unsigned>(t.size), t.is_signed);
  return word;
}

const Type* Arithmetic::common(const Type* a, const Type* b) {
  if (a->kind == Kind::Float || b->kind == Kind::Float) {
    uint64_t size = 4;
    for (const Type* t : {a, b})
      if (t->kind == Kind::Float) size = std::max(size, t->size);
    return types_.floating(size > 4 ? 8 : 4);
  }
  const uint64_t size = std::max(a->size, b->size);
  const bool is_signed = (a->is_signed || a->size < size) && (b->is_signed || b->size < size);
  return types_.integer(static_cast<unsigned>(size), is_signed);
}

Code Arithmetic::as_double(const Word& word) {
  Code code = word.code;
  if (word.type->kind != Kind::Float)
    code.op(word.type->is_signed ? kFloatFromSigned : kFloatFromUnsigned);
  else if (word.type->size == 4)
    code.op(kFloatWiden);
  return code;
}

Word Arithmetic::converted(Word word, const Type* to) {
  const Type* from = word.type;
  if (from == to) return word;
  Word out{to, word.code};
  if (to->kind == Kind::Bool) {
    out.code = truth(word);
    out.code.op(kLogNot).op(kLogNot);
  } else if (to->kind == Kind::Float) {
    if (from->kind == Kind::Float && from->size == to->size) return out;
    out.code = as_double(word);
    if (to->size == 4) out.code.op(kFloatNarrow);
  } else if (from->kind == Kind::Float) {
    out.code = as_double(word);
    // A double that fits a 64-bit signed integer is cut to smaller types as integers are.
    const bool wide = !to->is_signed && to->size == 8;
    out.code.op(wide ? kFloatToUnsigned : kFloatToSigned).extend(to->size * 8, to->is_signed);
  } else {
    const bool same = from->size < to->size && (!from->is_signed || to->is_signed);
    if (!same) out.code.extend(to->size * 8, to->is_signed);
    // A negative int as unsigned long: sign-extended already.
  }
  return out;
}

Code Arithmetic::truth(const Word& word) {
  if (word.type->kind != Kind::Float) return word.code;
  return Code(as_double(word)).constant(0).op(kFloatEqual).op(kLogNot);
}

Word Arithmetic::add_sub_mul_div(const std::string& op, Word a, Word b) {
  const Type* type = common(a.type, b.type);
  a = converted(a, type);
  b = converted(b, type);
  Word out{type, {}};
  const char sign = op[0];
  if (type->kind == Kind::Float) {
    out.code = as_double(a);
    out.code.append(as_double(b))
        .op(sign == '+'   ? kFloatAdd
            : sign == '-' ? kFloatSub
            : sign == '*' ? kFloatMul
                          : kFloatDiv);
    if (type->size == 4) out.code.op(kFloatNarrow);
    return out;
  }
  out.code = a.code;
  out.code.append(b.code);
  if (sign == '/' || sign == '%') {
    const bool is_signed = type->is_signed;
    out.code.op(sign == '/' ? is_signed ? kDivSigned : kDivUnsigned : is_signed ? kRemSigned : kRemUnsigned);
  } else {
    out.code.op(sign == '+' ? kAdd : sign == '-' ? kSub : kMul);
  }
  out.code.extend(type->size * 8, type->is_signed);
  return out;
}

Word Arithmetic::bits(const std::string& op, Word a, Word b) {
  if (op == "%") return add_sub_mul_div(op, a, b);
  const Type* type = common(a.type, b.type);
  Word out = converted(a, type);
  out.code.append(converted(b, type).code).op(op == "&" ? kBitAnd : op == "|" ? kBitOr : kBitXor);
  return out;
}

Word Arithmetic::shift(const std::string& op, Word a, Word b) {
  Word out = a;
  const Type* type = a.type;
  out.code.append(b.code).op(op == "<<" ? kLsh : type->is_signed ? kRshSigned : kRshUnsigned);
  out.code.extend(type->size * 8, type->is_signed);
  return out;
}

Word Arithmetic::compare(const std::string& op, Word a, Word b) {
  const bool pointers = a.type->kind == Kind::Pointer || b.type->kind == Kind::Pointer;
  const Type* type = pointers ? types_.integer(8, false) : common(a.type, b.type);
  a = converted(a, type);
  b = converted(b, type);
  Word out{types_.integer(4, true), {}};
  const bool swap = op == ">" || op == (type->kind == Kind::Float ? ">=" : "<=");
  const bool equality = op == "==" || op == "!=";
  if (type->kind == Kind::Float) {
    out.code = as_double(a);
    out.code.append(as_double(b));
    if (swap) out.code.op(kSwap);
    out.code.op(equality ? kFloatEqual : op.size() == 2 ? kFloatLessEqual : kFloatLess);
    if (op == "!=") out.code.op(kLogNot);
    return out;
  }
  out.code = a.code;
  out.code.append(b.code);
  if (swap) out.code.op(kSwap);
  out.code.op(equality ? kEqual : type->is_signed ? kLessSigned : kLessUnsigned);
  if (op == "!=" || op == "<=" || op == ">=") out.code.op(kLogNot);
  return out;
}

Word Arithmetic::negated(Word word) {
  if (word.type->kind == Kind::Float) {
    Code code = as_double(word);
    code.op(kFloatNeg);
    if (word.type->size == 4) code.op(kFloatNarrow);
    word.code = code;
    return word;
  }
  word.code = Code().constant(0).append(word.code).op(kSub).extend(word.type->size * 8, word.type->is_signed);
  return word;
}

Word Arithmetic::logical(bool both, const Word& a, const Word& b) {
  Word out{types_.integer(4, true), truth(a)};
  const Code second = truth(b);
  if (both) out.code.op(kLogNot);
  out.code.skip_if(second.size() + 3).append(second).op(kLogNot).op(kLogNot).skip(1).constant(both ? 0 : 1);
  return out;
}

Word Arithmetic::choice(const Word& condition, Word yes, Word no) {
  Word out{yes.type, truth(condition)};
  out.code.skip_if(no.code.size() + 1).append(no.code).skip(yes.code.size()).append(yes.code);
  return out;
}

}  // namespace backstep::symbols
