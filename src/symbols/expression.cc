// What an expression comes to, and how that is captured: a word, bytes in memory, or text.
#include "symbols/expression.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "symbols/expression_compile.h"

namespace backstep::symbols {

using namespace replayer;
using Kind = Type::Kind;

namespace {

constexpr uint32_t kMostText = 1024;
constexpr uint64_t kMostBytes = 16384;

// The expression, and a caret under the column; in a terminal a character of several bytes takes one place.
std::string pointed(const std::string& text, size_t column, const std::string& sentence) {
  constexpr size_t kWide = 100, kBefore = 60;
  std::string line = text;
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      ' ');
  column = std::min(column, line.size());
  if (line.size() > kWide) {
    const size_t from = column > kBefore ? column - kBefore : 0;
    line = line.substr(from, kWide);
    column -= from;
  }
  const auto places = std::count_if(line.begin(), line.begin() + static_cast<ptrdiff_t>(column),
                                    [](char c) { return (c & 0xc0) != 0x80; });
  return fmt::format("{}\n  {}\n  {}^", sentence, line, std::string(static_cast<size_t>(places), ' '));
}

std::vector<uint8_t> assembled(Code code, const Compilation& compilation) {
  if (const auto fs_base = compilation.event().fs_base) code.fix(kStateFsBase, *fs_base);
  auto bytes = code.bytes();
  if (bytes.empty()) compilation.fail(0, "this expression is too long");
  return bytes;
}

// How a value of this type is captured.
void capture(Compilation& compilation, const Operand& o, Types& types, Compiled& out) {
  const Type* type = o.type;
  out.type = types.ref(type);
  auto finish = [&](const Code& code, Capture kind, uint64_t size) {
    out.code = {assembled(code, compilation), kind, static_cast<uint32_t>(size)};
    out.of_thread = code.uses(replayer::kStateFsBase);
  };
  const bool pointer_to_text =
      type->kind == Kind::Pointer || type->string_pointer() || (type->text() && !type->count);
  if (pointer_to_text)
    if (auto text = compilation.text_address(o)) {
      out.shown_as_text = true;
      return finish(*text, Capture::Text, kMostText);
    }
  if (type->scalar()) return finish(compilation.word(o).code, Capture::Scalar, 8);
  const bool whole = type->kind == Kind::Struct || (type->kind == Kind::Array && type->count) ||
                     type->kind == Kind::Float || type->kind == Kind::Integer || type->kind == Kind::Other;
  if (!whole || o.is_text || o.storage.kind == Storage::Kind::Implicit) {
    const Word word = compilation.word(o);  // arrays of unknown size, functions: their address
    out.type = types.ref(word.type);
    return finish(word.code, Capture::Scalar, 8);
  }
  if (type->incomplete)
    compilation.fail(o.column,
                     fmt::format("what is in '{}' is not known: it is only declared", type->text_name()));
  if (type->size == 0) return finish(Code().constant(0), Capture::Bytes, 0);
  if (o.storage.kind == Storage::Kind::Memory)
    return finish(compilation.address(o), Capture::Bytes, std::min(type->size, kMostBytes));
  if (o.storage.kind == Storage::Kind::Gone) throw OptimizedOut{o.column, o.name, o.storage.why};
  if (type->size > kMaxCapturedWords * 8)
    throw OptimizedOut{o.column, o.name, "it is scattered over registers"};
  finish(compilation.words(o), Capture::Words, type->size);
}

std::string unreadable(const std::vector<uint8_t>& bytes) {
  uint64_t address = 0;
  if (bytes.size() == 1) return "not allocated";
  if (bytes.size() < sizeof address) return "no value";
  std::memcpy(&address, bytes.data(), sizeof address);
  return fmt::format("cannot read {:#x}", address);
}

std::span<const uint8_t> value_bytes(const Compiled& compiled, const std::vector<uint8_t>& bytes) {
  return std::span(bytes).first(std::min<size_t>(bytes.size(), compiled.type->size));
}

}  // namespace

ExpressionError::ExpressionError(const std::string& text, size_t column, const std::string& sentence)
    : Error(pointed(text, column, sentence), kExitUsage), column(column), sentence(sentence) {}

struct Compiler::State {
  explicit State(const Program& program) : variables(program) {}
  Variables variables;
};

Compiler::Compiler(const Program& program) : state_(std::make_unique<State>(program)) {}
Compiler::~Compiler() = default;
Compiler::Compiler(Compiler&&) noexcept = default;

Compiled Compiler::compile(const std::string& text, uint64_t pc, const EventVariables& event) {
  Variables& variables = state_->variables;
  Compilation compilation(variables, text, variables.site(pc, event.outer), event);
  Compiled out;
  out.text = text;
  out.type = variables.types().ref(variables.types().nothing());
  try {
    capture(compilation, compilation.run(), variables.types(), out);
  } catch (const OptimizedOut& gone) {
    out.optimized_out = true;
    out.why = fmt::format("'{}' is optimized out here: {}", gone.name, gone.why);
    out.code = {};
  }
  return out;
}

std::vector<uint8_t> Compiler::compile_condition(const std::string& text, uint64_t pc,
                                                 const EventVariables& event) {
  Variables& variables = state_->variables;
  Compilation compilation(variables, text, variables.site(pc, event.outer), event);
  try {
    return assembled(compilation.truth(compilation.run()), compilation);
  } catch (const OptimizedOut& gone) {
    compilation.fail(gone.column, fmt::format("'{}' is optimized out here: {}", gone.name, gone.why));
  }
}

Compiler::Place Compiler::compile_place(const std::string& text, uint64_t pc, const EventVariables& event) {
  Variables& variables = state_->variables;
  Compilation compilation(variables, text, variables.site(pc, event.outer), event);
  try {
    const Operand o = compilation.run();
    if (o.is_text) compilation.fail(o.column, "a variable is expected");
    const Code address = compilation.address(o);
    Place place{assembled(address, compilation), o.type->size, variables.types().ref(o.type),
                address.uses(replayer::kStateFsBase)};
    if (place.size == 0) compilation.fail(o.column, fmt::format("the size of '{}' is not known", o.name));
    return place;
  } catch (const OptimizedOut& gone) {
    compilation.fail(gone.column, fmt::format("'{}' is optimized out here: {}", gone.name, gone.why));
  }
}

std::vector<Compiler::Visible> Compiler::locals(uint64_t pc, unsigned outer) {
  std::vector<Visible> out;
  for (const auto& local : state_->variables.locals(state_->variables.site(pc, outer)))
    out.push_back({local.name, local.parameter});
  return out;
}

Compiled compile(const Program& program, const std::string& text, uint64_t pc, const EventVariables& event) {
  return Compiler(program).compile(text, pc, event);
}

std::vector<uint8_t> compile_condition(const Program& program, const std::string& text, uint64_t pc,
                                       const EventVariables& event) {
  return Compiler(program).compile_condition(text, pc, event);
}

std::string format(const Compiled& compiled, const std::vector<uint8_t>& bytes, bool readable) {
  if (compiled.optimized_out) return "<optimized out>";
  if (!readable) return "<" + unreadable(bytes) + ">";
  if (compiled.shown_as_text) return quoted(bytes, bytes.size() >= compiled.code.size);
  return format(*compiled.type, value_bytes(compiled, bytes));
}

nlohmann::json to_json(const Compiled& compiled, const std::vector<uint8_t>& bytes, bool readable) {
  if (compiled.optimized_out) return {{"unavailable", "optimized out"}};
  if (!readable) return {{"unavailable", unreadable(bytes)}};
  if (compiled.shown_as_text) return text_json(bytes);
  return to_json(*compiled.type, value_bytes(compiled, bytes));
}

}  // namespace backstep::symbols
