// Tokens first, then recursive descent. Whoever types expressions on a command line makes mistakes that can
// be told apart, so what C would accept and this language does not (assignments, calls) is recognised and
// answered.
#include "symbols/expression_syntax.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "symbols/expression.h"

namespace backstep::symbols {
namespace {

using NodePtr = std::unique_ptr<Node>;

constexpr size_t kLongest = 4096;
constexpr int kDeepestParentheses =
    80;  // parentheses in parentheses; the stack of the bytecode is not endless

struct Token {
  enum class Kind : uint8_t { End, Name, Dollar, Integer, Floating, Char, Text, Sign };
  Kind kind = Kind::End;
  size_t column = 0, end = 0;
  std::string text = {};  // names, signs, the contents of texts
  uint64_t value = 0;
  double number = 0;
  std::string suffix = {};  // of numbers
  bool decimal = false;
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
int hex_digit(char c) {
  return is_digit(c)            ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

class Lexer {
 public:
  explicit Lexer(const std::string& text) : text_(text) {}

  std::vector<Token> run() {
    if (text_.size() > kLongest)
      fail(kLongest, fmt::format("an expression may have {} characters", kLongest));
    std::vector<Token> tokens;
    for (;;) {
      while (at_ < text_.size() && strchr(" \t\r\n", text_[at_]) && text_[at_]) at_++;
      Token token;
      token.column = at_;
      if (at_ < text_.size()) read(token);
      token.end = at_;
      tokens.push_back(token);
      if (token.kind == Token::Kind::End) return tokens;
    }
  }

 private:
  [[noreturn]] void fail(size_t column, const std::string& sentence) const {
    throw ExpressionError(text_, column, sentence);
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void read(Token& token) {
    const char c = peek();
    if (is_letter(c) || c == '$') {
      token.kind = c == '$' ? Token::Kind::Dollar : Token::Kind::Name;
      if (c == '$') at_++;
      const size_t start = at_;
      while (is_letter(peek()) || is_digit(peek())) at_++;
      token.text = text_.substr(start, at_ - start);
      if (token.text.empty()) fail(token.column, "a name like $rax or $tick is expected after '$'");
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      number(token);
    } else if (c == '\'') {
      at_++;
      token.kind = Token::Kind::Char;
      if (peek() == '\'') fail(token.column, "there is no character between the quotes");
      token.value = static_cast<uint64_t>(
          static_cast<int64_t>(static_cast<signed char>(character('\'', token.column))));
      if (peek() != '\'') fail(token.column, "a character has the form 'a'; texts have double quotes");
      at_++;
    } else if (c == '"') {
      at_++;
      token.kind = Token::Kind::Text;
      while (peek() != '"' || at_ >= text_.size()) token.text += character('"', token.column);
      at_++;
    } else {
      sign(token);
    }
  }

  char character(char quote, size_t start) {
    if (at_ >= text_.size()) fail(start, fmt::format("the closing {} is missing", quote));
    char c = text_[at_++];
    if (c != '\\') return c;
    if (at_ >= text_.size()) fail(start, fmt::format("the closing {} is missing", quote));
    c = text_[at_++];
    static constexpr char kFrom[] = "ntrabfve\\'\"?", kTo[] = "\n\t\r\a\b\f\v\033\\'\"?";
    if (const char* found = c ? strchr(kFrom, c) : nullptr) return kTo[found - kFrom];
    unsigned value = 0;
    if (c == 'x') {
      if (hex_digit(peek()) < 0) fail(at_, "hexadecimal digits are expected after '\\x'");
      for (int i = 0; i < 2 && hex_digit(peek()) >= 0; i++)
        value = value * 16 + static_cast<unsigned>(hex_digit(text_[at_++]));
      return static_cast<char>(value);
    }
    if (c >= '0' && c <= '7') {
      value = static_cast<unsigned>(c - '0');
      for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; i++)
        value = value * 8 + static_cast<unsigned>(text_[at_++] - '0');
      return static_cast<char>(value);
    }
    fail(at_ - 1, fmt::format("'\\{}' is not an escape sequence", c));
  }

  void number(Token& token) {
    const size_t start = at_;
    int base = 10;
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X')) base = 16;
    if (peek() == '0' && (peek(1) == 'b' || peek(1) == 'B')) base = 2;
    if (base != 10) at_ += 2;
    auto digit = [&](char c) {
      const int d = base == 16 ? hex_digit(c) : is_digit(c) ? c - '0' : -1;
      return d;
    };
    std::string digits;
    while (digit(peek()) >= 0 || (peek() == '\'' && digit(peek(1)) >= 0)) {
      if (peek() != '\'') digits += peek();
      at_++;
    }
    const bool exponent =
        base == 16 ? peek() == 'p' || peek() == 'P' : base == 10 && (peek() == 'e' || peek() == 'E');
    if (base != 2 && (peek() == '.' || exponent)) return floating(token, start, base);
    token.kind = Token::Kind::Integer;
    token.decimal = base == 10;
    if (digits.empty()) fail(start, "digits are expected here");
    if (base == 10 && digits.size() > 1 && digits[0] == '0') {
      base = 8;
      token.decimal = false;
    }
    for (char c : digits) {
      const auto d = static_cast<uint64_t>(hex_digit(c));
      if (d >= static_cast<uint64_t>(base))
        fail(start, base == 8 ? "a number that begins with 0 is octal, and has no 8 or 9"
                              : "a binary number has only 0 and 1");
      if (token.value > (std::numeric_limits<uint64_t>::max() - d) / static_cast<uint64_t>(base))
        fail(start, "this number does not fit into 64 bits");
      token.value = token.value * static_cast<uint64_t>(base) + d;
    }
    suffix(token, "uUlL");
  }

  void floating(Token& token, size_t start, int base) {
    token.kind = Token::Kind::Floating;
    auto digits = [&] {
      while (base == 16 ? hex_digit(peek()) >= 0 : is_digit(peek())) at_++;
    };
    if (peek() == '.') at_++;
    digits();
    const char e = static_cast<char>(peek() | 0x20);
    if (e == (base == 16 ? 'p' : 'e')) {
      at_++;
      if (peek() == '+' || peek() == '-') at_++;
      if (!is_digit(peek())) fail(start, "the exponent of this number has no digits");
      while (is_digit(peek())) at_++;
    } else if (base == 16) {
      fail(start, "a hexadecimal floating-point number needs an exponent: 0x1.8p3");
    }
    std::string digits_only = text_.substr(start, at_ - start);
    digits_only.erase(std::remove(digits_only.begin(), digits_only.end(), '\''), digits_only.end());
    token.number = strtod(digits_only.c_str(), nullptr);
    suffix(token, "fFlL");
  }

  void suffix(Token& token, const char* letters) {
    const size_t start = at_;
    while (is_letter(peek()) || is_digit(peek())) token.suffix += static_cast<char>(text_[at_++]);
    const bool known =
        token.suffix.size() <= 3 && token.suffix.find_first_not_of(letters) == std::string::npos;
    if (!known) fail(start, fmt::format("'{}' cannot follow a number", token.suffix));
  }

  void sign(Token& token) {
    static const char* const kSigns[] = {
        "<<=", ">>=", "->*", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=",
        "&&",  "||",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "::", "=~", "(",
        ")",   "[",   "]",   ".",   "&",  "*",  "+",  "-",  "~",  "!",  "/",  "%",  "<",
        ">",   "^",   "|",   "?",   ":",  "=",  ",",  ";",  "{",  "}",  "@"};
    token.kind = Token::Kind::Sign;
    for (const char* sign : kSigns)
      if (text_.compare(at_, strlen(sign), sign) == 0) {
        token.text = sign;
        at_ += strlen(sign);
        return;
      }
    const auto c = static_cast<unsigned char>(peek());
    fail(at_, c >= 0x20 && c < 0x7f ? fmt::format("'{}' has no meaning here", peek())
                                    : "this character has no meaning here");
  }

  const std::string& text_;
  size_t at_ = 0;
};

struct Level {
  std::vector<std::string> operators;
};
// From those that bind least. `~` between two texts: contains.
const std::vector<Level>& levels() {
  static const std::vector<Level> kLevels = {{{"||"}},
                                             {{"&&"}},
                                             {{"|"}},
                                             {{"^"}},
                                             {{"&"}},
                                             {{"==", "!=", "~"}},
                                             {{"<", ">", "<=", ">="}},
                                             {{"<<", ">>"}},
                                             {{"+", "-"}},
                                             {{"*", "/", "%"}}};
  return kLevels;
}

class Parser {
 public:
  Parser(const std::string& text, Types& types, TypeNames& names)
      : text_(text), types_(types), names_(names), tokens_(Lexer(text).run()) {}

  NodePtr run() {
    if (peek().kind == Token::Kind::End) fail(peek(), "an expression is expected");
    NodePtr node = choice();
    if (peek().kind != Token::Kind::End) leftover(peek());
    return node;
  }

 private:
  [[noreturn]] void fail(const Token& token, const std::string& sentence) const {
    throw ExpressionError(text_, token.column, sentence);
  }
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(const char* sign, size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::Sign && peek(ahead).text == sign;
  }
  bool is_name(const char* name, size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::Name && peek(ahead).text == name;
  }
  bool take(const char* sign) {
    if (!is(sign)) return false;
    at_++;
    return true;
  }
  void expect(const char* sign, const Token& opened) {
    if (take(sign)) return;
    if (peek().kind == Token::Kind::End)
      fail(opened, fmt::format("the '{}' that closes this is missing", sign));
    fail(peek(), fmt::format("'{}' is expected here", sign));
  }
  NodePtr make(Node::Kind kind, const Token& token) const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->column = token.column;
    return node;
  }

  struct Deeper {
    explicit Deeper(Parser& parser) : parser(parser) {
      if (++parser.depth_ > kDeepestParentheses)
        parser.fail(parser.peek(), "this expression is nested too deeply");
    }
    ~Deeper() { parser.depth_--; }
    Parser& parser;
  };

  // Something behind a complete expression.
  [[noreturn]] void leftover(const Token& token) const {
    if (token.kind == Token::Kind::Sign) {
      static const char* const kAssign[] = {"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="};
      if (token.text == "=") fail(token, "'=' would assign, and expressions change nothing; '==' compares");
      if (token.text == "=~") fail(token, "'~' asks whether a text contains another");
      if (std::any_of(std::begin(kAssign), std::end(kAssign), [&](const char* s) { return token.text == s; }))
        fail(token, fmt::format("'{}' would assign, and expressions change nothing", token.text));
      if (token.text == "++" || token.text == "--")
        fail(token, fmt::format("'{}' would assign, and expressions change nothing", token.text));
      if (token.text == "(") fail(token, "functions cannot be called: this run is over");
      fail(token, fmt::format("'{}' is not expected here", token.text));
    }
    fail(token, "an operator is expected before this");
  }

  NodePtr choice() {
    Deeper deeper(*this);
    NodePtr condition = binary(0);
    if (!is("?")) return condition;
    NodePtr node = make(Node::Kind::Choice, peek());
    const Token opened = peek();
    at_++;
    node->children.push_back(std::move(condition));
    node->children.push_back(choice());
    expect(":", opened);
    node->children.push_back(choice());
    return node;
  }

  NodePtr binary(size_t level) {
    if (level == levels().size()) return unary();
    NodePtr left = binary(level + 1);
    for (;;) {
      const auto& operators = levels()[level].operators;
      const Token token = peek();
      if (token.kind != Token::Kind::Sign ||
          std::find(operators.begin(), operators.end(), token.text) == operators.end())
        return left;
      at_++;
      NodePtr node = make(Node::Kind::Binary, token);
      node->text = token.text;
      node->children.push_back(std::move(left));
      node->children.push_back(binary(level + 1));
      left = std::move(node);
    }
  }

  NodePtr unary() {
    Deeper deeper(*this);
    const Token token = peek();
    if (is("++") || is("--"))
      fail(token, fmt::format("'{}' would assign, and expressions change nothing", token.text));
    for (const char* sign : {"*", "&", "-", "+", "~", "!"})
      if (take(sign)) {
        NodePtr node = make(Node::Kind::Unary, token);
        node->text = sign;
        node->children.push_back(unary());
        return node;
      }
    if (is("&&")) fail(token, "an operand is expected before '&&'");
    if (is_name("sizeof")) return size_of();
    if (is("(")) {
      const size_t before = at_;
      at_++;
      if (const Type* type = type_name()) {
        expect(")", token);
        NodePtr node = make(Node::Kind::Cast, token);
        node->type = type;
        node->children.push_back(unary());
        return node;
      }
      at_ = before;
    }
    return postfix();
  }

  NodePtr size_of() {
    NodePtr node = make(Node::Kind::SizeOf, peek());
    at_++;
    const Token opened = peek();
    const size_t before = at_;
    if (take("(")) {
      node->type = type_name();
      if (node->type) {
        expect(")", opened);
        return node;
      }
      at_ = before;
    }
    node->children.push_back(unary());
    return node;
  }

  NodePtr postfix() {
    NodePtr node = primary();
    for (;;) {
      const Token token = peek();
      if (take("[")) {
        NodePtr index = make(Node::Kind::Index, token);
        index->children.push_back(std::move(node));
        index->children.push_back(choice());
        expect("]", token);
        node = std::move(index);
      } else if (is(".") || is("->")) {
        at_++;
        NodePtr member = make(Node::Kind::Member, peek());
        member->arrow = token.text == "->";
        if (peek().kind != Token::Kind::Name)
          fail(peek(), fmt::format("the name of a member is expected after '{}'", token.text));
        member->text = qualified_name();
        if (is("(")) fail(peek(), "functions cannot be called: this run is over");
        member->children.push_back(std::move(node));
        node = std::move(member);
      } else if (is("(")) {
        leftover(token);
      } else {
        return node;
      }
    }
  }

  NodePtr primary() {
    const Token token = peek();
    switch (token.kind) {
      case Token::Kind::Integer:
        at_++;
        return integer(token);
      case Token::Kind::Floating: {
        at_++;
        NodePtr node = make(Node::Kind::Floating, token);
        node->number = token.number;
        const bool single = token.suffix.find_first_of("fF") != std::string::npos;
        node->type = types_.floating(single ? 4 : 8);
        return node;
      }
      case Token::Kind::Char: {
        at_++;
        NodePtr node = make(Node::Kind::Integer, token);
        node->value = token.value;
        node->type = types_.character();
        return node;
      }
      case Token::Kind::Text:
        at_++;
        if (is("::")) return name(token);
        {
          NodePtr node = make(Node::Kind::Text, token);
          node->text = token.text;
          return node;
        }
      case Token::Kind::Dollar: {
        at_++;
        NodePtr node = make(Node::Kind::Dollar, token);
        node->text = token.text;
        return node;
      }
      case Token::Kind::Name:
        return name(token);
      case Token::Kind::Sign:
        if (take("(")) {
          NodePtr node = choice();
          expect(")", token);
          return node;
        }
        if (is("::")) return name(token);
        fail(token, fmt::format("a value is expected here, not '{}'", token.text));
      default:
        fail(token, "a value is expected here, but the expression ends");
    }
  }

  NodePtr integer(const Token& token) {
    NodePtr node = make(Node::Kind::Integer, token);
    node->value = token.value;
    const bool is_unsigned = token.suffix.find_first_of("uU") != std::string::npos;
    const bool is_long = token.suffix.find_first_of("lL") != std::string::npos;
    const uint64_t v = token.value;
    const bool may_unsigned = is_unsigned || !token.decimal;
    if (!is_long && !is_unsigned && v <= INT32_MAX)
      node->type = types_.integer(4, true);
    else if (!is_long && may_unsigned && v <= UINT32_MAX)
      node->type = types_.integer(4, false);
    else if (!is_unsigned && v <= INT64_MAX)
      node->type = types_.integer(8, true);
    else
      node->type = types_.integer(8, false);
    return node;
  }

  // [::] a :: b<int> :: c, "file.c" :: x
  NodePtr name(const Token& first) {
    NodePtr node = make(Node::Kind::Name, first);
    if (first.kind == Token::Kind::Text) node->file = first.text;
    node->top = take("::");
    if (peek().kind != Token::Kind::Name) fail(peek(), "a name is expected after '::'");
    if (first.kind == Token::Kind::Name) refuse_keywords(first);
    node->text = qualified_name();
    if (is("(")) {
      if (types_.builtin({node->text})) fail(peek(), fmt::format("write ({})x to convert x", node->text));
      fail(peek(), "functions cannot be called: this run is over");
    }
    return node;
  }

  void refuse_keywords(const Token& token) {
    for (const char* word : {"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"})
      if (token.text == word) fail(token, "write (type)x to convert x");
    for (const char* word : {"struct", "union", "enum", "class", "const", "volatile", "unsigned", "signed"})
      if (token.text == word) fail(token, "a type can stand in a cast, '(type)x', or in 'sizeof(type)'");
    for (const char* word : {"new", "delete", "throw", "return", "if", "while", "for"})
      if (token.text == word) fail(token, fmt::format("'{}' cannot be used in an expression", word));
  }

  std::string qualified_name() {
    std::string name = peek().text;
    at_++;
    for (;;) {
      if (const size_t end = template_arguments();
          end && tokens_[std::min(end, tokens_.size() - 1)].text == "::") {
        name += spelled(at_, end);
        at_ = end;
      }
      if (!is("::") || peek(1).kind != Token::Kind::Name) return name;
      name += "::" + peek(1).text;
      at_ += 2;
    }
  }

  // The token behind <...> here; 0: these are no template arguments.
  size_t template_arguments() const {
    if (!is("<")) return 0;
    int depth = 0;
    for (size_t i = at_; i < tokens_.size() && i < at_ + 100; i++) {
      const Token& t = tokens_[i];
      if (t.kind == Token::Kind::Sign) {
        if (t.text == "<")
          depth++;
        else if (t.text == ">")
          depth--;
        else if (t.text == ">>")
          depth -= 2;
        else if (t.text != "," && t.text != "*" && t.text != "&" && t.text != "::" && t.text != "(" &&
                 t.text != ")")
          return 0;
        if (depth < 0) return 0;
        if (depth == 0) return i + 1;
      } else if (t.kind != Token::Kind::Name && t.kind != Token::Kind::Integer) {
        return 0;
      }
    }
    return 0;
  }
  // As compilers write it: one space behind a comma and between words.
  std::string spelled(size_t from, size_t to) const {
    std::string out;
    bool word = false;
    for (size_t i = from; i < to; i++) {
      const Token& t = tokens_[i];
      const bool is_word = t.kind != Token::Kind::Sign;
      if (word && is_word) out += ' ';
      out += is_word ? text_.substr(t.column, t.end - t.column) : t.text;
      if (t.text == ",") out += ' ';
      word = is_word;
    }
    return out;
  }

  // A type, as in a cast; null and nothing taken: this is none.
  const Type* type_name() {
    const size_t before = at_;
    const Type* type = type_specifier();
    if (!type) {
      at_ = before;
      return nullptr;
    }
    for (;;) {
      if (is_name("const") || is_name("volatile") || is_name("restrict"))
        at_++;
      else if (take("*"))
        type = types_.pointer_to(type);
      else
        break;
    }
    if (is("&") && is(")", 1))
      fail(peek(), "a cast cannot make a reference; '*(type *)&x' looks at x as another type");
    std::vector<uint64_t> counts;
    while (is("[") && peek(1).kind == Token::Kind::Integer && is("]", 2)) {
      constexpr uint64_t kMost = 1 << 24;
      if (peek(1).value > kMost) fail(peek(1), "this array is too large");
      counts.push_back(peek(1).value);
      at_ += 3;
    }
    uint64_t all = 1;
    for (auto count = counts.rbegin(); count != counts.rend(); ++count) {
      all *= std::max<uint64_t>(1, *count);
      if (all > 1 << 24) fail(peek(), "this array is too large");
      type = types_.array_of(type, *count);
    }
    return type;
  }

  const Type* type_specifier() {
    std::vector<std::string> words;
    const Type* named = nullptr;
    bool any = false;
    for (;; any = true) {
      if (is_name("const") || is_name("volatile")) {
        at_++;
        continue;
      }
      if (!named && words.empty() &&
          (is_name("struct") || is_name("union") || is_name("enum") || is_name("class"))) {
        const Token keyword = peek();
        at_++;
        if (peek().kind != Token::Kind::Name)
          fail(peek(), fmt::format("a name is expected after '{}'", keyword.text));
        const Token where = peek();
        const std::string name = type_words();
        named = names_.type_named(name, false);
        if (!named) fail(where, fmt::format("there is no type '{}'", name));
        continue;
      }
      if (peek().kind == Token::Kind::Name && !named && types_.builtin({peek().text})) {
        words.push_back(peek().text);
        at_++;
        continue;
      }
      if (words.empty() && !named && (peek().kind == Token::Kind::Name || is("::"))) {
        const size_t before = at_;
        const bool top = take("::");
        if (peek().kind == Token::Kind::Name &&
            !(any ? false : names_.is_variable(peek().text) && !is("::", 1))) {
          const std::string name = type_words();
          named = names_.type_named(name, top);
        }
        if (named) continue;
        at_ = before;
      }
      break;
    }
    if (named) return named;
    return types_.builtin(words);
  }

  std::string type_words() {
    std::string name = peek().text;
    at_++;
    for (;;) {
      if (const size_t end = template_arguments()) {
        name += spelled(at_, end);
        at_ = end;
      }
      if (!is("::") || peek(1).kind != Token::Kind::Name) return name;
      name += "::" + peek(1).text;
      at_ += 2;
    }
  }

  const std::string& text_;
  Types& types_;
  TypeNames& names_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::unique_ptr<Node> parse(const std::string& text, Types& types, TypeNames& names) {
  return Parser(text, types, names).run();
}

}  // namespace backstep::symbols
