// PostgreSQL takes rows fastest by COPY. The program psql sends them: it knows all that people have set up
// for their servers (passwords, service files, certificates, tunnels), and our program, which is started for
// every process that is recorded, does not grow by the fifteen libraries that libpq needs
// (docs/dependencies.md).
//
// All is one script on its stdin, one transaction: COMMIT is its last line, so whatever goes wrong before,
// here or there, leaves nothing behind. psql ends with the first error, and a closed socket tells us at once.
// In the data of a COPY every backslash is doubled, so nothing in it can end it or be read as a command.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <sstream>

#include <fmt/format.h>

#include "base/child.h"
#include "base/error.h"
#include "base/text.h"
#include "trace/csv.h"
#include "trace/export.h"

namespace backstep::trace {
namespace {

using Type = ExportedColumn::Type;

constexpr size_t kSentAtOnce = 256 << 10;  // bytes

std::string quoted_name(const std::string& name) {
  std::string text = "\"";
  for (char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

std::string quoted_text(const std::string& bytes) {
  std::string text = "'";
  for (char c : to_utf8(bytes)) text += c == '\'' ? std::string("''") : std::string(c != 0, c);
  return text + "'";
}

const char* type_name(Type type) {
  switch (type) {
    case Type::Integer:
      return "bigint";
    case Type::Time:
      return "timestamptz";
    case Type::Real:
      return "double precision";
    case Type::Bytes:
      return "bytea";
    default:
      return "text";
  }
}

// Microseconds are what it has.
std::string time_text(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t rest = ((ns % kSecond) + kSecond) % kSecond;
  const time_t seconds = (ns - rest) / kSecond;
  tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}+00", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, rest / 1000);
}

std::string text_in(int fd) {
  std::string text;
  char bytes[4096];
  for (ssize_t n; (n = pread(fd, bytes, sizeof bytes, static_cast<off_t>(text.size()))) > 0;)
    text.append(bytes, static_cast<size_t>(n));
  return text;
}

// What psql has said, without what only its developers need; and what to do about it. With VERBOSITY verbose
// errors have their SQLSTATE, which is the same in all languages.
std::string psql_said(const std::string& errors) {
  std::istringstream lines(errors);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.find("LOCATION:") != std::string::npos) continue;
    text += (text.empty() ? "" : "\n    ") + line;
  }
  auto has = [&](const char* state) { return errors.find(fmt::format(" {}: ", state)) != std::string::npos; };
  if (has("42P07")) text += "\n--replace replaces tables that exist; --schema puts them elsewhere";
  if (has("42501")) text += "\nthis user may not do that there; --schema names a schema of its own";
  return text.empty() ? "psql has said nothing" : text;
}

class PostgresExport : public Export {
 public:
  PostgresExport(const std::string& address, const std::string& schema, bool replace,
                 std::function<void()> listen)
      : schema_(schema), replace_(replace), listen_(std::move(listen)) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
      throw Error("cannot make a socket: " + errno_text(errno));
    script_ = Fd(pair[0]);
    const Fd theirs(pair[1]);
    errors_ = Fd(memfd_create("backstep-psql", MFD_CLOEXEC));
    const Fd nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!errors_ || !nothing) throw Error("cannot make a memory file: " + errno_text(errno));
    ChildOptions options;
    options.input = theirs.get();
    options.output = nothing.get();
    options.errors = errors_.get();
    options.own_session = false;  // it may ask for a password
    options.advice = "exporting to PostgreSQL needs its client (apt-get install postgresql-client)";
    psql_ = Child({"psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=verbose",
                   "--dbname=" + address},
                  options);
    put("SET client_encoding = 'UTF8';\nSET client_min_messages = warning;\n"
        "SET standard_conforming_strings = on;\nBEGIN;\n");
    if (!schema_.empty())
      put(
          fmt::format("SELECT format('CREATE SCHEMA %I', {0}) WHERE NOT EXISTS\n"
                      "  (SELECT FROM pg_namespace WHERE nspname = {0}) \\gexec\n",
                      quoted_text(schema_)));
    send();
  }

  bool needs_types() const override { return true; }
  uint64_t changed_texts() const override { return changed_; }

  void begin(const ExportedTable& table) override {
    types_.clear();
    name_ = (schema_.empty() ? "" : quoted_name(schema_) + ".") + quoted_name(table.name);
    std::string columns, comments;
    auto add = [&](const std::string& name, const char* type, const std::string& meaning) {
      columns += fmt::format("{}\n  {} {}", columns.empty() ? "" : ",", quoted_name(name), type);
      if (!meaning.empty())
        comments +=
            fmt::format("COMMENT ON COLUMN {}.{} IS {};\n", name_, quoted_name(name), quoted_text(meaning));
    };
    for (const ExportedColumn& c : table.columns) {
      types_.push_back(c.type);
      add(c.name, type_name(c.type), c.meaning);
      if (c.type == Type::Time) add(c.name + "_ns", "bigint", "the same exactly: nanoseconds since 1970");
    }
    if (replace_) put(fmt::format("DROP TABLE IF EXISTS {};\n", name_));
    put(fmt::format("CREATE TABLE {} ({}\n);\nCOMMENT ON TABLE {} IS {};\n{}", name_, columns, name_,
                    quoted_text(table.meaning), comments));
    auto has = [&](const char* name) {
      return std::any_of(table.columns.begin(), table.columns.end(),
                         [&](const auto& c) { return c.name == name; });
    };
    indexed_ = has("process") && has("tick");
    put(fmt::format("COPY {} FROM STDIN;\n", name_));
    send();
  }

  void row(const Row& row) override {
    for (size_t i = 0; i < row.size(); i++) {
      if (i) buffer_ += '\t';
      put_value(row[i], types_[i]);
    }
    buffer_ += '\n';
    if (buffer_.size() >= kSentAtOnce) send();
  }

  void end() override {
    put("\\.\n");
    if (indexed_) put(fmt::format("CREATE INDEX ON {} (process, tick);\n", name_));
    send();
  }

  void finish() override {
    put("COMMIT;\n");
    send();
    script_.reset();
    if (psql_.wait() != 0) fail();
  }

 private:
  void put(const std::string& text) { buffer_ += text; }

  void put_value(const Value& value, Type type) {
    const auto* n = std::get_if<int64_t>(&value);
    if (type == Type::Time) {
      if (n)
        buffer_ += fmt::format("{}\t{}", time_text(*n), *n);
      else
        buffer_ += "\\N\t\\N";
    } else if (n) {
      buffer_ += std::to_string(*n);
    } else if (const auto* x = std::get_if<double>(&value)) {
      buffer_ += fmt::format("{}", *x);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      put_text(*text);
    } else if (const auto* blob = std::get_if<Blob>(&value)) {
      buffer_ += (type == Type::Bytes ? "\\\\x" : "") + hexadecimal(blob->bytes);
    } else {
      buffer_ += "\\N";
    }
  }

  // Its texts are valid UTF-8, and have no byte 0.
  void put_text(const std::string& bytes) {
    const std::string text = to_utf8(bytes);
    bool same = text.size() == bytes.size();
    for (char c : text) {
      switch (c) {
        case '\\':
          buffer_ += "\\\\";
          break;
        case '\n':
          buffer_ += "\\n";
          break;
        case '\r':
          buffer_ += "\\r";
          break;
        case '\t':
          buffer_ += "\\t";
          break;
        case '\0':
          buffer_ += "\xef\xbf\xbd";
          same = false;
          break;
        default:
          buffer_ += c;
      }
    }
    if (!same) changed_++;
  }

  void send() {
    for (size_t at = 0; at < buffer_.size();) {
      const ssize_t n = ::send(script_.get(), buffer_.data() + at, buffer_.size() - at, MSG_NOSIGNAL);
      if (n > 0) {
        at += static_cast<size_t>(n);
        continue;
      }
      if (errno != EINTR) {
        psql_.wait();
        fail();
      }
      listen_();
    }
    buffer_.clear();
  }

  [[noreturn]] void fail() const {
    throw Error("the export to PostgreSQL has failed, and nothing of it stays:\n    " +
                psql_said(text_in(errors_.get())));
  }

  std::string schema_, name_;
  bool replace_, indexed_ = false;
  std::function<void()> listen_;
  Fd script_, errors_;
  Child psql_;
  std::string buffer_;
  std::vector<Type> types_;
  uint64_t changed_ = 0;
};

}  // namespace

bool is_postgres_address(const std::string& target) {
  return target.starts_with("postgresql://") || target.starts_with("postgres://");
}

std::unique_ptr<Export> export_to_postgres(const std::string& address, const std::string& schema,
                                           bool replace, std::function<void()> listen) {
  return std::make_unique<PostgresExport>(address, schema, replace, std::move(listen));
}

}  // namespace backstep::trace
