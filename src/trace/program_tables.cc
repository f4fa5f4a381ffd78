// What the debug information and the symbol tables of a process's files say: nothing of the run, but what to
// join it with.
#include <algorithm>

#include <fmt/format.h>

#include "session/modules.h"
#include "trace/table.h"

namespace backstep::trace {
namespace {

using symbols::Module;
using symbols::Program;

constexpr Column kProcessOfProgram{
    "process", "INT", kEqual, "whose program; if nothing is said, the one that the whole query is about"};

// One module after the other, as reading a large one takes its time.
class ModuleRows : public Rows {
 public:
  ModuleRows(History& history, const Question& question)
      : history_(history), processes_(replayed_processes_of(history, question)) {
    if (auto paths = equal_texts(question, "module")) modules_ = std::move(*paths);
  }

  bool next() override {
    history_.listen();
    if (++at_ < rows_.size()) return true;
    while (next_ < processes_.size()) {
      const uint64_t process = processes_[next_];
      const Program& program = history_.program(process);
      if (module_ == program.modules().size()) {
        next_++, module_ = 0;
        continue;
      }
      const Module& m = program.modules()[module_++];
      if (modules_ && std::find(modules_->begin(), modules_->end(), m.name) == modules_->end()) continue;
      rows_.clear();
      try {
        add(process, program, m, rows_);
      } catch (const Interrupted&) {
        throw;
      } catch (const Error&) {  // nothing can be read there
      }
      at_ = 0;
      if (!rows_.empty()) return true;
    }
    return false;
  }
  Value value(size_t column) override { return rows_[at_][column]; }

 protected:
  virtual void add(uint64_t process, const Program& program, const Module& module,
                   std::vector<Row>& rows) = 0;
  History& history_;

 private:
  std::vector<uint64_t> processes_;
  std::optional<std::vector<std::string>> modules_;
  size_t next_ = 0, module_ = 0;
  std::vector<Row> rows_;
  size_t at_ = 0;
};

class Modules : public ModuleRows {
  using ModuleRows::ModuleRows;
  void add(uint64_t process, const Program&, const Module& m, std::vector<Row>& rows) override {
    Value id;
    try {
      id = known_text(m.elf().build_id());
    } catch (const Error&) {  // not ELF
    }
    rows.push_back({number(process), m.name, number(m.start), number(m.end), number(m.bias),
                    static_cast<int64_t>(session::is_of_the_system(m.name)), id});
  }
};

Row function_row(uint64_t process, const symbols::Function& f) {
  uint64_t size = 0;
  for (auto [start, end] : f.ranges) size += end - start;
  return {number(process), f.name,         known_text(f.full), number(f.entry),
          number(size),    f.module->name, known_text(f.file), f.line ? Value(int64_t{f.line}) : Value()};
}

class Functions : public ModuleRows {
  using ModuleRows::ModuleRows;
  void add(uint64_t process, const Program& program, const Module& m, std::vector<Row>& rows) override {
    for (const symbols::Function& f : program.all_functions(m))
      if (!f.inlined) rows.push_back(function_row(process, f));
  }
};

// Those of a name, of which only what is needed is read.
std::unique_ptr<Rows> open_functions(History& history, const Question& question) {
  const auto names = equal_texts(question, "name");
  if (!names) return std::make_unique<Functions>(history, question);
  std::vector<Row> rows;
  for (uint64_t process : replayed_processes_of(history, question))
    for (const std::string& name : *names)
      for (const symbols::Function& f : history.program(process).functions(name))
        if (f.name == name) rows.push_back(function_row(process, f));
  return std::make_unique<ReadyRows>(std::move(rows));
}

class Lines : public ModuleRows {
  using ModuleRows::ModuleRows;
  void add(uint64_t process, const Program& program, const Module& m, std::vector<Row>& rows) override {
    for (const Program::LineCode& l : program.line_table(m))
      rows.push_back(
          {number(process), l.file, static_cast<int64_t>(l.line), number(l.start), number(l.end), m.name});
    // Inlined copies tell of the same code several times.
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
};

template <class T>
std::unique_ptr<Rows> open_modules(History& history, const Question& question) {
  return std::make_unique<T>(history, question);
}

Cost cost_of_modules(History&, const Question&) {
  return {1000, 10};
}

Cost cost_of_names(History&, const Question& question) {
  if (question.find("name", Op::Equal)) return {5'000, 1};
  return question.find("module", Op::Equal) ? Cost{20'000, 2'000} : Cost{200'000, 20'000};
}

std::string explain_program(History&, const Question&) {
  return "read from the debug information and symbols of the program's files; nothing is replayed";
}

}  // namespace

void add_program_tables(std::vector<Table>& tables) {
  tables.push_back({"modules",
                    "the ELF files that a process has mapped",
                    {kProcessOfProgram,
                     {"path", "TEXT", kNothing, "that it mapped"},
                     {"start", "ADDRESS INT", kNothing, "its first address"},
                     {"end", "ADDRESS INT", kNothing, "the one behind its last"},
                     {"bias", "ADDRESS INT", kNothing, "what addresses are greater by than in the file"},
                     {"system", "INT", kNothing, "1: a library of the distribution's"},
                     {"build_id", "TEXT", kNothing, "hexadecimal"}},
                    {{"start"}},
                    {},
                    true,
                    cost_of_modules,
                    open_modules<Modules>,
                    explain_program});
  tables.push_back({"functions",
                    "the functions of a process's files",
                    {kProcessOfProgram,
                     {"name", "TEXT", kEqual, "as in the source, qualified, without parameters"},
                     {"signature", "TEXT", kNothing, "with parameters"},
                     {"entry", "ADDRESS INT", kNothing, "its first instruction"},
                     {"size", "INT", kNothing, "bytes of code"},
                     {"module", "TEXT", kEqual, "the path of its file"},
                     {"file", "TEXT", kNothing, "where it is declared"},
                     {"line", "INT", kNothing, ""}},
                    {},
                    {},
                    true,
                    cost_of_names,
                    open_functions,
                    explain_program});
  tables.push_back({"lines",
                    "which code belongs to which line of the source",
                    {kProcessOfProgram,
                     {"file", "TEXT", kNothing, "as the compiler was given it"},
                     {"line", "INT", kNothing, ""},
                     {"start", "ADDRESS INT", kNothing, "its first address; a line may have several pieces"},
                     {"end", "ADDRESS INT", kNothing, "the one behind its last"},
                     {"module", "TEXT", kEqual, "the path of the file with the code"}},
                    {},
                    {},
                    true,
                    cost_of_names,
                    open_modules<Lines>,
                    explain_program});
}

}  // namespace backstep::trace
