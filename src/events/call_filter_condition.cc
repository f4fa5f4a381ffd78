// Parsing and evaluation of conditions.
//
// The parser climbs C's table of precedences. What would be a wrong answer without a word is an error here:
// names that no call in question has, texts compared like numbers, `=` for `==`, and C's old trap, in which
// `flags & O_CREAT == O_CREAT` means flags & 1.
//
// A value may be unknown, and logic has three values then: `a || b` is true if one side is, whatever the
// other one, and the opposite of unknown is unknown.
#include "events/call_filter_condition.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/nearest.h"
#include "events/call_filter.h"
#include "guest/syscall_table.h"

namespace backstep::events {
namespace {

__extension__ typedef unsigned __int128 Bits;

// ---- Reading ----

struct Operator {
  const char* text;
  Op op;
  int precedence;  // greater: binds tighter
};
// Longer ones first.
constexpr Operator kOperators[] = {
    {"||", Op::Or, 1},         {"&&", Op::And, 2},       {"==", Op::Equal, 6},
    {"!=", Op::NotEqual, 6},   {"!~", Op::NotLike, 6},   {"<<", Op::ShiftLeft, 8},
    {">>", Op::ShiftRight, 8}, {"<=", Op::LessEqual, 7}, {">=", Op::GreaterEqual, 7},
    {"~", Op::Like, 6},        {"|", Op::BitOr, 3},      {"^", Op::BitXor, 4},
    {"&", Op::BitAnd, 5},      {"<", Op::Less, 7},       {">", Op::Greater, 7},
    {"+", Op::Add, 9},         {"-", Op::Subtract, 9},   {"*", Op::Multiply, 10},
    {"/", Op::Divide, 10},     {"%", Op::Remainder, 10},
};

bool is_comparison(Op op) {
  return op >= Op::Less && op <= Op::NotLike;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

class Parser {
 public:
  Parser(const std::string& text, size_t start, const std::vector<uint16_t>& calls, bool all)
      : text_(text), at_(start), calls_(calls), all_(all) {}

  NodePtr parse() {
    skip_blanks();
    if (at_ == text_.size()) fail(at_, "the condition behind 'if' is missing: if ret < 0, for instance");
    NodePtr node = expression(0);
    if (at_ < text_.size()) fail(at_, behind_operand());
    if (node->op == Op::Text) fail(node->column, "a text alone is no condition: path ~ \"text\"");
    return node;
  }

 private:
  [[noreturn]] void fail(size_t column, const std::string& sentence) const {
    throw FilterError(text_, column, sentence);
  }

  // Trees are walked by recursion, so there is a limit to their size.
  NodePtr make(Op op, size_t column) {
    if (++nodes_ > kMost) fail(column, "this condition is too long");
    auto node = std::make_unique<Node>();
    node->op = op;
    node->column = column;
    return node;
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) at_++;
  }
  bool ahead(std::string_view token) const { return std::string_view(text_).substr(at_).starts_with(token); }
  std::string word_at(size_t at) const {
    size_t end = at;
    while (end < text_.size() && is_word(text_[end])) end++;
    return text_.substr(at, end - at);
  }

  // What stands where an operator should.
  std::string behind_operand() const {
    const std::string word = word_at(at_);
    if (text_[at_] == '=') return "'=' is not an operator here: '==' compares";
    if (text_[at_] == ')') return "there is no '(' for this ')'";
    if (word == "and") return "write && for 'and'";
    if (word == "or") return "write || for 'or'";
    if (word == "if") return "there is one 'if' only: join conditions with && or ||";
    if (word == "like" || word == "contains" || word == "matches")
      return fmt::format("write ~ for '{}'", word);
    return "an operator is missing here, such as ==, <, &&, ~";
  }

  const Operator* operator_here() const {
    for (const Operator& o : kOperators)
      if (ahead(o.text)) return &o;
    return nullptr;
  }

  NodePtr expression(int precedence) {
    NodePtr left = operand();
    for (;;) {
      skip_blanks();
      if (at_ == text_.size()) return left;
      const Operator* o = operator_here();
      if (!o || o->precedence <= precedence) return left;
      NodePtr node = make(o->op, at_);
      at_ += std::strlen(o->text);
      if (text_.compare(at_, 1, "=") == 0 && !is_comparison(o->op) && o->op != Op::And && o->op != Op::Or)
        fail(node->column, fmt::format("'{}=' would change something: conditions only look", o->text));
      node->left = std::move(left);
      if (o->op == Op::Like || o->op == Op::NotLike) check_text_follows(o->text);
      node->right = expression(o->precedence);
      check(*node);
      left = std::move(node);
    }
  }

  void check_text_follows(const char* like) {
    skip_blanks();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return;
    const std::string word = word_at(at_);
    fail(at_, fmt::format("behind {} stands a text in quotes: {} \"{}\"", like, like,
                          word.empty() ? "conf" : word));
  }

  NodePtr operand() {
    if (++depth_ > kDeepest) fail(at_, "this is nested too deeply");
    skip_blanks();
    if (at_ == text_.size()) fail(at_, "something is missing at the end");
    NodePtr node;
    const char c = text_[at_];
    if (c == '!' || c == '~' || c == '-' || c == '+') {
      node = make(c == '!' ? Op::Not : c == '~' ? Op::Complement : c == '-' ? Op::Negate : Op::Plus, at_++);
      node->left = operand();
      if (node->left->op == Op::Text) fail(node->column, fmt::format("'{}' takes a number, not a text", c));
    } else if (c == '(') {
      const size_t open = at_++;
      node = expression(0);
      skip_blanks();
      if (at_ == text_.size()) fail(open, "the ')' for this '(' is missing");
      if (text_[at_] != ')') fail(at_, behind_operand());
      at_++;
      node->in_parens = true;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      node = number();
    } else if (c == '"' || c == '\'') {
      node = quoted();
    } else if (is_word(c)) {
      node = word();
    } else {
      fail(at_, fmt::format("a name, a number or a text is expected here, not '{}'", printable(c)));
    }
    depth_--;
    return node;
  }

  static std::string printable(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x7f ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }

  NodePtr number() {
    NodePtr node = make(Op::Number, at_);
    const std::string digits = word_at(at_);
    const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
    const int base = hex ? 16 : digits.size() > 1 && digits[0] == '0' ? 8 : 10;
    if (hex && digits.size() == 2) fail(at_, "digits are missing behind 0x");
    for (size_t i = hex ? 2 : 0; i < digits.size(); i++) {
      const char c = digits[i];
      const int digit = std::isdigit(static_cast<unsigned char>(c))    ? c - '0'
                        : std::isxdigit(static_cast<unsigned char>(c)) ? (c | 0x20) - 'a' + 10
                                                                       : 99;
      if (digit >= base)
        fail(at_ + i, base == 8 && digit < 10
                          ? fmt::format("'{}' is octal, as in C, and has no digit {}", digits, c)
                          : fmt::format("'{}' is not a number", digits));
      if (node->number > (Number{1} << 64)) fail(at_, fmt::format("{} is too large a number", digits));
      node->number = node->number * base + digit;
    }
    at_ += digits.size();
    return node;
  }

  NodePtr quoted() {
    auto node = make(Op::Text, at_);
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) {
      const bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size();
      if (escaped) at_++;
      const char c = escaped ? escape() : text_[at_++];
      const bool special = c == '*' || c == '?' || c == '[';
      node->text += c;
      if (c == '\\' || (special && escaped)) node->pattern += '\\';
      node->pattern += c;
      node->is_glob |= special && !escaped;
    }
    if (at_ == text_.size()) fail(node->column, fmt::format("the closing {} of this text is missing", quote));
    at_++;
    return node;
  }

  // What stands behind a backslash.
  char escape() {
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case '0':
        return '\0';
      case 'x': {
        const std::string digits = text_.substr(at_, 2);
        if (digits.size() < 2 || !std::isxdigit(static_cast<unsigned char>(digits[0])) ||
            !std::isxdigit(static_cast<unsigned char>(digits[1])))
          fail(at_, "two hexadecimal digits are expected behind \\x");
        at_ += 2;
        return static_cast<char>(std::stoi(digits, nullptr, 16));
      }
      default:
        return c;
    }
  }

  NodePtr word() {
    NodePtr node = make(Op::Variable, at_);
    std::string name = word_at(at_);
    at_ += name.size();
    if (name == "args" && text_.compare(at_, 1, ".") == 0) {
      const size_t behind = ++at_;
      name = word_at(at_);
      at_ += name.size();
      if (name.empty()) fail(behind, "the name of an argument is missing behind 'args.'");
      if (!has_argument(name, false)) fail_unknown(name, behind);
      node->variable = {Variable::ByName, {}, 0, name};
      return node;
    }
    if (name.size() == 4 && name.starts_with("arg") && name[3] >= '0' && name[3] <= '5') {
      node->variable = {Variable::ByPlace, {}, name[3] - '0', name};
      return node;
    }
    const auto fact = find_fact(name);
    // `kill if pid == 5` is about what all these calls call so.
    const bool hidden = fact && *fact != Fact::Fd && *fact != Fact::Path && !all_ && has_argument(name, true);
    if (fact && !hidden) {
      node->variable = {Variable::OfCall, *fact, 0, name};
      if ((*fact == Fact::Fd || *fact == Fact::Path)) check_has(*fact, name, node->column);
      return node;
    }
    if (has_argument(name, false)) {
      node->variable = {Variable::ByName, {}, 0, name};
      return node;
    }
    if (auto value = find_constant(name)) {
      node->op = Op::Number;
      node->number = *value;
      return node;
    }
    fail_unknown(name, node->column);
  }

  // Does one of the calls in question have an argument of that name, or `every` one?
  bool has_argument(const std::string& name, bool every) {
    auto known = known_.find({name, every});
    if (known != known_.end()) return known->second;
    auto has = [&](uint16_t nr) { return arguments(nr).contains(name); };
    const bool found = every ? !calls_.empty() && std::all_of(calls_.begin(), calls_.end(), has)
                             : std::any_of(calls_.begin(), calls_.end(), has);
    return known_[{name, every}] = found;
  }

  const std::set<std::string>& arguments(uint16_t nr) {
    auto found = arguments_.find(nr);
    if (found == arguments_.end()) found = arguments_.emplace(nr, argument_names(nr)).first;
    return found->second;
  }

  // `path` and `fd` of calls that have none would never be true.
  void check_has(Fact fact, const std::string& name, size_t column) {
    const guest::Arg wanted = fact == Fact::Fd ? guest::Arg::Fd : guest::Arg::Path;
    for (uint16_t nr : calls_) {
      const guest::Syscall& row = guest::syscall_row(nr);
      if (fact == Fact::Fd && (row.traits & guest::kCreatesFd)) return;
      for (const guest::ArgSpec& spec : row.args)
        if (spec.kind == wanted || (fact == Fact::Fd && spec.shape == guest::Shape::IntPair)) return;
    }
    fail_unknown(name, column);
  }

  [[noreturn]] void fail_unknown(const std::string& name, size_t column) {
    if (name == "not") fail(column, "write ! for 'not'");
    std::vector<std::string> words = fact_names();
    std::string own;  // of the one call in question
    for (uint16_t nr : calls_)
      for (const std::string& argument : arguments(nr)) words.push_back(argument);
    const guest::Syscall* row = calls_.size() == 1 ? &guest::syscall_row(calls_[0]) : nullptr;
    for (int i = 0; row && i < row->argc; i++)
      if (row->args[i].name) own += (own.empty() ? "" : ", ") + std::string(row->args[i].name);
    for (const std::string& constant : constant_names()) words.push_back(constant);
    std::string text = row && row->name ? fmt::format("{} has no '{}'", row->name, name)
                       : all_           ? fmt::format("there is no '{}'", name)
                                        : fmt::format("none of these calls has '{}'", name);
    const std::string near = did_you_mean(name, words);
    if (!near.empty())
      text += near;
    else if (!own.empty())
      text += fmt::format("; its arguments are {}", own);
    else
      text += fmt::format("; texts stand in quotes, \"{}\"", name);
    fail(column, text);
  }

  // Is the word a text wherever a call has it?
  bool is_text(const Node& node) {
    if (node.op == Op::Text) return true;
    if (node.op != Op::Variable) return false;
    const Variable& v = node.variable;
    if (v.kind == Variable::OfCall) return v.fact == Fact::Path || v.fact == Fact::Name;
    if (v.kind == Variable::ByPlace) return false;
    for (uint16_t nr : calls_)
      if (arguments(nr).contains(v.name) && !is_text_argument(nr, v.name)) return false;
    return true;
  }

  void check(Node& node) {
    const Node &left = *node.left, &right = *node.right;
    if (node.op == Op::Like || node.op == Op::NotLike) {
      if (left.op != Op::Variable)
        fail(node.column, "in front of ~ stands what is looked into: path ~ \"conf\"");
      node.as_texts = true;
      return;
    }
    const bool texts = left.op == Op::Text || right.op == Op::Text;
    const bool equality = node.op == Op::Equal || node.op == Op::NotEqual;
    if (texts && !equality) fail(node.column, "texts can be compared with ==, !=, ~ and !~ only");
    if (texts && (left.op == Op::Text ? right : left).op != Op::Variable)
      fail(node.column, "a text can be compared with what a call has only: path == \"/etc/passwd\"");
    node.as_texts = texts || (equality && is_text(left) && is_text(right));
    const bool bits = node.op == Op::BitAnd || node.op == Op::BitOr || node.op == Op::BitXor;
    for (const Node* side : {node.left.get(), node.right.get()})
      if (bits && is_comparison(side->op) && !side->in_parens)
        fail(node.column,
             "comparisons bind tighter than &, | and ^, as in C: write (flags & O_CREAT) == O_CREAT");
  }

  static constexpr int kDeepest = 200, kMost = 2000;

  const std::string& text_;
  size_t at_;
  const std::vector<uint16_t>& calls_;
  bool all_;
  int depth_ = 0, nodes_ = 0;
  std::map<uint16_t, std::set<std::string>> arguments_;
  std::map<std::pair<std::string, bool>, bool> known_;
};

// ---- Evaluating ----

Truth truth(bool yes) {
  return yes ? Truth::Yes : Truth::No;
}
Truth opposite(Truth t) {
  return t == Truth::Unknown ? t : truth(t == Truth::No);
}
Truth either(Truth a, Truth b) {
  if (a == Truth::Yes || b == Truth::Yes) return Truth::Yes;
  return a == Truth::Unknown || b == Truth::Unknown ? Truth::Unknown : Truth::No;
}

Truth truth_of(const Node& node, const Call& call);

std::optional<Number> calculate(Op op, Number a, Number b) {
  const auto x = static_cast<Bits>(a), y = static_cast<Bits>(b);  // whose overflow is defined
  switch (op) {
    case Op::Multiply:
      return static_cast<Number>(x * y);
    case Op::Divide:
      if (b == 0) return std::nullopt;
      return b == -1 ? static_cast<Number>(-x) : a / b;
    case Op::Remainder:
      if (b == 0) return std::nullopt;
      return b == -1 ? 0 : a % b;
    case Op::Add:
      return static_cast<Number>(x + y);
    case Op::Subtract:
      return static_cast<Number>(x - y);
    case Op::ShiftLeft:
      if (b < 0 || b > 127) return std::nullopt;
      return static_cast<Number>(x << static_cast<int>(b));
    case Op::ShiftRight:
      if (b < 0 || b > 127) return std::nullopt;
      return a >> static_cast<int>(b);
    case Op::BitAnd:
      return a & b;
    case Op::BitXor:
      return a ^ b;
    case Op::BitOr:
      return a | b;
    default:
      return std::nullopt;
  }
}

bool compare(Op op, Number a, Number b) {
  switch (op) {
    case Op::Less:
      return a < b;
    case Op::LessEqual:
      return a <= b;
    case Op::Greater:
      return a > b;
    case Op::GreaterEqual:
      return a >= b;
    default:
      return a == b;
  }
}

std::vector<Number> numbers(const Node& node, const Call& call) {
  switch (node.op) {
    case Op::Number:
      return {node.number};
    case Op::Variable:
      return numbers_of(node.variable, call);
    case Op::Text:
      return {};
    case Op::Complement:
    case Op::Negate:
    case Op::Plus: {
      std::vector<Number> values = numbers(*node.left, call);
      for (Number& v : values)
        v = node.op == Op::Complement ? ~v
            : node.op == Op::Negate   ? static_cast<Number>(-static_cast<Bits>(v))
                                      : v;
      return values;
    }
    case Op::Not:
    case Op::And:
    case Op::Or:
      break;
    default: {
      if (is_comparison(node.op)) break;
      std::vector<Number> values;
      const std::vector<Number> right = numbers(*node.right, call);
      for (Number a : numbers(*node.left, call))
        for (Number b : right)
          if (auto v = calculate(node.op, a, b)) values.push_back(*v);
      return values;
    }
  }
  const Truth t = truth_of(node, call);
  return t == Truth::Unknown ? std::vector<Number>{} : std::vector<Number>{t == Truth::Yes ? 1 : 0};
}

std::vector<Text> texts(const Node& node, const Call& call) {
  if (node.op == Op::Text) return {{node.text}};
  return texts_of(node.variable, call);
}

Truth is_equal(const Text& a, const Text& b) {
  const Text& cut = a.cut ? a : b;
  const Text& other = a.cut ? b : a;
  if (!cut.cut) return truth(a.bytes == b.bytes);
  return other.bytes.starts_with(cut.bytes) ? Truth::Unknown : Truth::No;
}

Truth is_like(const Text& text, const Node& wanted) {
  if (!wanted.is_glob) {
    const bool found = text.bytes.find(wanted.text) != std::string::npos;
    return found || !text.cut ? truth(found) : Truth::Unknown;
  }
  const bool matches = matches_glob(wanted.pattern, text.bytes);
  if (!text.cut) return truth(matches);
  const bool open = wanted.pattern.ends_with('*') && !wanted.pattern.ends_with("\\*");
  return matches && open ? Truth::Yes : Truth::Unknown;
}

// True of one of the values; for the opposite operators, of none.
Truth comparison(const Node& node, const Call& call) {
  const bool negative = node.op == Op::NotEqual || node.op == Op::NotLike;
  Truth result = Truth::No;
  bool any = false;
  auto add = [&](Truth t) {
    result = either(result, t);
    any = true;
  };
  if (node.op == Op::Like || node.op == Op::NotLike) {
    for (const Text& a : texts(*node.left, call)) add(is_like(a, *node.right));
  } else if (node.as_texts) {
    const std::vector<Text> right = texts(*node.right, call);
    for (const Text& a : texts(*node.left, call))
      for (const Text& b : right) add(is_equal(a, b));
  } else {
    const std::vector<Number> right = numbers(*node.right, call);
    for (Number a : numbers(*node.left, call))
      for (Number b : right) add(truth(compare(node.op, a, b)));
  }
  if (!any) return Truth::Unknown;
  return negative ? opposite(result) : result;
}

Truth truth_of(const Node& node, const Call& call) {
  switch (node.op) {
    case Op::Not:
      return opposite(truth_of(*node.left, call));
    case Op::Or:
      return either(truth_of(*node.left, call), truth_of(*node.right, call));
    case Op::And:
      return opposite(either(opposite(truth_of(*node.left, call)), opposite(truth_of(*node.right, call))));
    default:
      break;
  }
  if (is_comparison(node.op)) return comparison(node, call);
  const std::vector<Number> values = numbers(node, call);
  if (values.empty()) return Truth::Unknown;
  return truth(std::any_of(values.begin(), values.end(), [](Number v) { return v != 0; }));
}

}  // namespace

Truth Condition::evaluate(const Call& call) const {
  return truth_of(*root, call);
}

std::shared_ptr<const Condition> parse_condition(const std::string& text, size_t start,
                                                 const std::vector<uint16_t>& calls, bool all) {
  auto condition = std::make_shared<Condition>();
  condition->root = Parser(text, start, calls, all).parse();
  return condition;
}

}  // namespace backstep::events
