// Location expressions of DWARF are code for a stack machine much like ours, so most operations have a
// counterpart. What is left is where the machines differ: values that have a type (DW_OP_convert), which are
// kept extended to 64 bits here, and descriptions that are no address (registers, pieces, values). Anything
// not understood makes the variable `<optimized out>`: no value is better than a wrong one.
#include <dwarf.h>

#include <cstring>

#include <gelf.h>

#include "base/error.h"
#include "symbols/program_index.h"
#include "symbols/thread_locals.h"
#include "symbols/unwind_rules.h"
#include "symbols/variables.h"

namespace backstep::symbols {
namespace {

using namespace replayer;

struct Unsupported {
  const char* why = "where it is kept cannot be worked out here";
};

// gdb's number of a general register.
std::optional<unsigned> general_register(uint64_t dwarf) {
  static constexpr unsigned kNumbers[] = {0, 3, 2, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  if (dwarf >= std::size(kNumbers)) return {};
  return kNumbers[dwarf];
}

std::optional<unsigned> vector_register(uint64_t dwarf) {
  constexpr uint64_t kXmm0 = 17;
  if (dwarf < kXmm0 || dwarf >= kXmm0 + 16) return {};
  return static_cast<unsigned>(dwarf - kXmm0);
}

// The type of a word on DWARF's stack.
struct Typed {
  uint64_t bits = 64;
  bool is_signed = true;
  bool generic = true;
};

class Translation {
 public:
  Translation(const Program& program, const Site& site, const Module* module, Dwarf_Attribute attribute)
      : program_(program), site_(site), module_(module), attribute_(attribute) {}

  Storage run(const Dwarf_Op* ops, size_t count) {
    try {
      for (size_t i = 0; i < count; i++) step(ops[i]);
      return finish();
    } catch (const Unsupported& e) {
      return {.why = e.why};
    }
  }

  // As an address or a value to calculate with: frame bases.
  Code word(const Dwarf_Op* ops, size_t count) {
    for (size_t i = 0; i < count; i++) step(ops[i]);
    if (count == 0 || !pieces_.empty() || form_ == Form::Implicit || form_ == Form::Block)
      throw Unsupported();
    return code_;
  }

 private:
  // What the expression amounts to so far, since the last piece.
  enum class Form : uint8_t { Address, Register, Vector, Value, Block, Implicit };

  void push(Typed type = {}) { stack_.push_back(type); }
  Typed pop() {
    if (stack_.empty()) throw Unsupported();
    const Typed top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Code& constant(uint64_t value) {
    push();
    return code_.constant(value);
  }
  void general(uint64_t dwarf) {
    auto number = general_register(dwarf);
    if (!number) throw Unsupported();
    code_.reg(*number);
    push();
  }

  void in_register(uint64_t dwarf) {
    if (auto number = vector_register(dwarf)) {
      form_ = Form::Vector;
      vector_ = *number;
      return;
    }
    general(dwarf);
    form_ = Form::Register;
  }

  // Two words to one of the same type, kept to its size.
  void join(Op op) {
    const Typed b = pop(), a = pop();
    if (a.generic != b.generic || a.bits != b.bits) throw Unsupported();
    code_.op(op);
    if (!a.generic) code_.extend(a.bits, a.is_signed);
    push(a);
  }
  void compare(bool swap, bool negate, bool equal) {
    const Typed b = pop(), a = pop();
    if (a.generic != b.generic || a.bits != b.bits || a.is_signed != b.is_signed) throw Unsupported();
    if (swap) code_.op(kSwap);
    code_.op(equal ? kEqual : a.is_signed ? kLessSigned : kLessUnsigned);
    if (negate) code_.op(kLogNot);
    push();
  }
  void divide(bool remainder) {
    const Typed b = pop(), a = pop();
    if (a.generic != b.generic || a.bits != b.bits) throw Unsupported();
    const bool is_signed = a.generic ? !remainder : a.is_signed;
    code_.op(remainder ? is_signed ? kRemSigned : kRemUnsigned : is_signed ? kDivSigned : kDivUnsigned);
    if (!a.generic) code_.extend(a.bits, a.is_signed);
    push(a);
  }
  void shift(Op op) {
    pop();
    const Typed a = pop();
    if (!a.generic && op == kRshUnsigned && a.is_signed) code_.op(kSwap).extend(a.bits, false).op(kSwap);
    code_.op(op);
    if (!a.generic) code_.extend(a.bits, a.is_signed);
    push(a);
  }
  void negate() {
    const Typed a = pop();
    code_.constant(0).op(kSwap).op(kSub);
    if (!a.generic) code_.extend(a.bits, a.is_signed);
    push(a);
  }

  // The base type that an operation names; none: words of no type.
  Typed type_of(const Dwarf_Op& op) {
    if (op.number == 0 && (op.atom == DW_OP_convert || op.atom == DW_OP_GNU_convert ||
                           op.atom == DW_OP_reinterpret || op.atom == DW_OP_GNU_reinterpret))
      return {};
    Dwarf_Die die;
    Dwarf_Attribute encoding;
    Dwarf_Word kind = 0;
    if (dwarf_getlocation_die(&attribute_, &op, &die) != 0 || !dwarf_attr(&die, DW_AT_encoding, &encoding) ||
        dwarf_formudata(&encoding, &kind) != 0)
      throw Unsupported();
    const int size = dwarf_bytesize(&die);
    if (size != 1 && size != 2 && size != 4 && size != 8) throw Unsupported();
    const bool is_signed = kind == DW_ATE_signed || kind == DW_ATE_signed_char;
    if (!is_signed && kind != DW_ATE_unsigned && kind != DW_ATE_unsigned_char && kind != DW_ATE_boolean &&
        kind != DW_ATE_address && kind != DW_ATE_UTF)
      throw Unsupported();  // floats
    return {static_cast<uint64_t>(size) * 8, is_signed, false};
  }
  void convert(const Dwarf_Op& op) {
    const Typed to = type_of(op);
    pop();
    if (!to.generic) code_.extend(to.bits, to.is_signed);
    push(to);
  }

  void frame_base() {
    if (!site_.function || site_.module != module_ || depth_ > 2) throw Unsupported();
    Dwarf_Die function;
    Dwarf_Attribute base;
    Dwarf_Op* ops = nullptr;
    size_t count = 0;
    if (!dwarf_offdie(module_->elf().dwarf(), site_.function->die, &function) ||
        !dwarf_attr_integrate(&function, DW_AT_frame_base, &base) ||
        dwarf_getlocation_addr(&base, site_.address, &ops, &count, 1) != 1)
      throw Unsupported();
    if (count > 0 && (ops[0].atom == DW_OP_reg6 || ops[0].atom == DW_OP_breg6) && !has_own_frame_pointer())
      throw Unsupported();
    Translation inner(program_, site_, module_, base);
    inner.depth_ = depth_ + 1;
    code_.append(inner.word(ops, count));
    push();
  }
  // Before the function has set it, and after it has given it back, rbp is its caller's: then the frame is
  // found by rsp.
  bool has_own_frame_pointer() const {
    const FrameRow* row = program_.frame_rules().at(program_, site_.pc);
    return !row || !row->cfa_expression.empty() || row->cfa_register == UnwindRegisters::kRbp;
  }
  void frame_address() {
    const FrameRow* row = program_.frame_rules().at(program_, site_.pc);
    if (!row || depth_ > 2) throw Unsupported();
    if (row->cfa_expression.empty()) {
      general(static_cast<uint64_t>(row->cfa_register));
      code_.offset(static_cast<uint64_t>(row->cfa_offset));
      return;
    }
    Translation inner(program_, site_, module_, attribute_);
    inner.depth_ = depth_ + 1;
    code_.append(inner.word(row->cfa_expression.data(), row->cfa_expression.size()));
    push();
  }

  uint64_t indexed_address(const Dwarf_Op& op) {
    Dwarf_Attribute result;
    Dwarf_Addr address = 0;
    if (dwarf_getlocation_attr(&attribute_, &op, &result) != 0) throw Unsupported();
    if (dwarf_formaddr(&result, &address) == 0) return address;
    Dwarf_Word plain = 0;
    if (dwarf_formudata(&result, &plain) == 0) return plain;
    throw Unsupported();
  }

  void block(const Dwarf_Op& op) {
    Dwarf_Block bytes;
    if (dwarf_getlocation_implicit_value(&attribute_, &op, &bytes) != 0 ||
        bytes.length > kMaxCapturedWords * 8)
      throw Unsupported();
    block_.assign(bytes.data, bytes.data + bytes.length);
    form_ = Form::Block;
  }
  void implicit_pointer(const Dwarf_Op& op) {
    Dwarf_Attribute to;
    if (dwarf_getlocation_implicit_pointer(&attribute_, &op, &to) != 0) throw Unsupported();
    Dwarf_Op copy = op;
    if (dwarf_getlocation_die(&attribute_, &copy, &implicit_) != 0) throw Unsupported();
    offset_ = static_cast<int64_t>(op.number2);
    form_ = Form::Implicit;
  }

  void thread_local_address() {
    pop();
    const Code* base = program_.thread_locals().base(*module_);
    if (!base) throw Unsupported{"where its library has thread-local variables is not known"};
    code_.append(*base).op(kAdd);
    push();
  }

  void piece(uint64_t bytes) {
    Storage::Piece piece{.offset = at_, .size = bytes};
    const bool nothing = code_.empty() && form_ == Form::Address;
    if (form_ == Form::Implicit) throw Unsupported();
    if (bytes == 0 || bytes > 4096) throw Unsupported();
    at_ += bytes;
    if (nothing) {
      pieces_.push_back(piece);
      return;
    }
    for (const Storage& part : parts(bytes)) {
      Storage::Piece one{
          .offset = piece.offset, .size = std::min<uint64_t>(bytes, 8), .kind = part.kind, .code = part.code};
      if (part.kind == Storage::Kind::Memory) one.size = bytes;
      piece.offset += one.size;
      bytes -= one.size;
      pieces_.push_back(one);
    }
    if (bytes) pieces_.push_back({.offset = piece.offset, .size = bytes});
    code_ = {};
    stack_.clear();
    block_.clear();
    form_ = Form::Address;
  }

  // The thing described since the last piece, as words or as memory.
  std::vector<Storage> parts(uint64_t bytes) {
    std::vector<Storage> out;
    if (form_ == Form::Address) return {{.kind = Storage::Kind::Memory, .code = code_}};
    if (form_ == Form::Vector) {
      for (unsigned half : {0u, 0x80u})
        if (half == 0 || bytes > 8)
          out.push_back({.kind = Storage::Kind::Value, .code = Code().op(kVector, vector_ | half)});
      return out;
    }
    if (form_ == Form::Block) {
      for (size_t i = 0; i < block_.size(); i += 8) {
        uint64_t value = 0;
        std::memcpy(&value, block_.data() + i, std::min<size_t>(8, block_.size() - i));
        out.push_back({.kind = Storage::Kind::Value, .code = Code().constant(value)});
      }
      return out;
    }
    return {{.kind = Storage::Kind::Value, .code = code_}};
  }

  Storage finish() {
    if (!pieces_.empty()) {
      Storage storage{.kind = Storage::Kind::Pieces};
      storage.pieces = pieces_;
      return storage;
    }
    switch (form_) {
      case Form::Implicit:
        return {.kind = Storage::Kind::Implicit, .die = implicit_, .offset = offset_};
      case Form::Vector:
      case Form::Block: {
        const uint64_t size = form_ == Form::Block ? block_.size() : 16;
        auto all = parts(size);
        if (all.size() == 1) return all[0];
        Storage storage{.kind = Storage::Kind::Pieces};
        uint64_t offset = 0;
        for (const Storage& part : all) {
          storage.pieces.push_back({offset, 8, part.kind, part.code});
          offset += 8;
        }
        if (all.empty()) throw Unsupported();
        return storage;
      }
      default:
        if (code_.empty()) return {.why = "the compiler kept no value of it here"};
        return parts(8)[0];
    }
  }

  void step(const Dwarf_Op& op) {
    if (form_ != Form::Address && op.atom != DW_OP_piece && op.atom != DW_OP_bit_piece &&
        op.atom != DW_OP_GNU_uninit)
      throw Unsupported();
    const uint8_t atom = op.atom;
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) {
      constant(atom - DW_OP_lit0);
    } else if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31) {
      in_register(atom - DW_OP_reg0);
    } else if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31) {
      general(atom - DW_OP_breg0);
      code_.offset(op.number);
    } else if (!constants(op) && !arithmetic(op) && !places(op)) {
      throw Unsupported();  // entry values as well: they need the caller's frame
    }
  }

  bool constants(const Dwarf_Op& op) {
    switch (op.atom) {
      case DW_OP_addr:
        constant(op.number + module_->bias);
        return true;
      case DW_OP_addrx:
      case DW_OP_GNU_addr_index:
        constant(indexed_address(op) + module_->bias);
        return true;
      case DW_OP_constx:
      case DW_OP_GNU_const_index:
        constant(indexed_address(op));
        return true;
      case DW_OP_const1u:
      case DW_OP_const1s:
      case DW_OP_const2u:
      case DW_OP_const2s:
      case DW_OP_const4u:
      case DW_OP_const4s:
      case DW_OP_const8u:
      case DW_OP_const8s:
      case DW_OP_constu:
      case DW_OP_consts:
        constant(op.number);
        return true;
      default:
        return false;
    }
  }

  bool arithmetic(const Dwarf_Op& op) {
    switch (op.atom) {
      case DW_OP_dup:
        push(pop());
        push(stack_.back());
        code_.op(kDup);
        return true;
      case DW_OP_drop:
        pop();
        code_.op(kPop);
        return true;
      case DW_OP_over:
      case DW_OP_pick: {
        const uint64_t n = op.atom == DW_OP_over ? 1 : op.number;
        if (n >= stack_.size()) throw Unsupported();
        push(stack_[stack_.size() - 1 - n]);
        code_.op(kPick, n);
        return true;
      }
      case DW_OP_swap: {
        const Typed b = pop(), a = pop();
        push(b);
        push(a);
        code_.op(kSwap);
        return true;
      }
      case DW_OP_and:
        join(kBitAnd);
        return true;
      case DW_OP_or:
        join(kBitOr);
        return true;
      case DW_OP_xor:
        join(kBitXor);
        return true;
      case DW_OP_plus:
        join(kAdd);
        return true;
      case DW_OP_minus:
        join(kSub);
        return true;
      case DW_OP_mul:
        join(kMul);
        return true;
      case DW_OP_div:
        divide(false);
        return true;
      case DW_OP_mod:
        divide(true);
        return true;
      case DW_OP_plus_uconst: {
        const Typed a = pop();
        code_.offset(op.number);
        if (!a.generic) code_.extend(a.bits, a.is_signed);
        push(a);
        return true;
      }
      case DW_OP_neg:
        negate();
        return true;
      case DW_OP_not: {
        const Typed a = pop();
        code_.op(kBitNot);
        if (!a.generic) code_.extend(a.bits, a.is_signed);
        push(a);
        return true;
      }
      case DW_OP_shl:
        shift(kLsh);
        return true;
      case DW_OP_shr:
        shift(kRshUnsigned);
        return true;
      case DW_OP_shra:
        shift(kRshSigned);
        return true;
      case DW_OP_eq:
        compare(false, false, true);
        return true;
      case DW_OP_ne:
        compare(false, true, true);
        return true;
      case DW_OP_lt:
        compare(false, false, false);
        return true;
      case DW_OP_ge:
        compare(false, true, false);
        return true;
      case DW_OP_gt:
        compare(true, false, false);
        return true;
      case DW_OP_le:
        compare(true, true, false);
        return true;
      case DW_OP_nop:
      case DW_OP_GNU_uninit:
        return true;
      case DW_OP_convert:
      case DW_OP_GNU_convert:
        convert(op);
        return true;
      default:
        return false;
    }
  }

  bool places(const Dwarf_Op& op) {
    switch (op.atom) {
      case DW_OP_bregx:
        general(op.number);
        code_.offset(op.number2);
        return true;
      case DW_OP_regx:
        in_register(op.number);
        return true;
      case DW_OP_fbreg:
        frame_base();
        code_.offset(op.number);
        return true;
      case DW_OP_call_frame_cfa:
        frame_address();
        return true;
      case DW_OP_deref:
        pop();
        code_.load(8);
        push();
        return true;
      case DW_OP_deref_size:
        if (op.number != 1 && op.number != 2 && op.number != 4 && op.number != 8) return false;
        pop();
        code_.load(op.number);
        push();
        return true;
      case DW_OP_regval_type:
      case DW_OP_GNU_regval_type: {
        // number is the register; the type is where libdw finds it
        const Typed type = type_of(op);
        general(op.number);
        pop();
        code_.extend(type.bits, type.is_signed);
        push(type);
        return true;
      }
      case DW_OP_deref_type:
      case DW_OP_GNU_deref_type: {
        const Typed type = type_of(op);
        pop();
        code_.load(type.bits / 8).extend(type.bits, type.is_signed);
        push(type);
        return true;
      }
      case DW_OP_form_tls_address:
      case DW_OP_GNU_push_tls_address:
        thread_local_address();
        return true;
      case DW_OP_stack_value:
        pop();
        form_ = Form::Value;
        return true;
      case DW_OP_implicit_value:
        block(op);
        return true;
      case DW_OP_implicit_pointer:
      case DW_OP_GNU_implicit_pointer:
        implicit_pointer(op);
        return true;
      case DW_OP_piece:
        piece(op.number);
        return true;
      case DW_OP_bit_piece:
        if (op.number % 8 || op.number2) return false;
        piece(op.number / 8);
        return true;
      default:
        return false;
    }
  }

  const Program& program_;
  const Site& site_;
  const Module* module_;
  Dwarf_Attribute attribute_;
  Code code_;
  std::vector<Typed> stack_;
  Form form_ = Form::Address;
  unsigned vector_ = 0;
  std::vector<uint8_t> block_;
  Dwarf_Die implicit_ = {};
  int64_t offset_ = 0;
  std::vector<Storage::Piece> pieces_;
  uint64_t at_ = 0;  // bytes in pieces so far
  int depth_ = 0;    // frame bases in frame addresses
};

}  // namespace

Storage thread_local_at(const Program& program, const Module& module, uint64_t offset) {
  const Code* base = program.thread_locals().base(module);
  if (!base) return {.why = "where its library has thread-local variables is not known"};
  return {.kind = Storage::Kind::Memory, .code = Code(*base).offset(offset)};
}

Storage location(const Program& program, const Site& site, const Module* module, Dwarf_Attribute attribute) {
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  // Lists are of the site's own module; elsewhere an expression must hold everywhere.
  const int found = site.module == module && site.pc
                        ? dwarf_getlocation_addr(&attribute, site.address, &ops, &count, 1)
                    : dwarf_getlocation(&attribute, &ops, &count) == 0 ? 1
                                                                       : 0;
  if (found < 1) return {.why = "the compiler kept no value of it here"};
  return Translation(program, site, module, attribute).run(ops, count);
}

}  // namespace backstep::symbols
