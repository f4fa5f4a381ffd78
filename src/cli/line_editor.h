// Lines that a person types at a terminal: editing, a history that is kept, completion.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace backstep::cli {

class LineEditor {
 public:
  // What the last word of the text up to the cursor may be completed to.
  using Completions =
      std::function<std::vector<std::string>(const std::string& before, const std::string& word)>;

  // `history`: the file that lines are kept in; empty: none.
  LineEditor(std::string history, Completions completions);
  ~LineEditor();  // writes it
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  struct Line {
    std::string text;
    bool cancelled = false;  // Ctrl-C
  };
  std::optional<Line> read(const std::string& prompt);  // none: the end
  void remember(const std::string& line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace backstep::cli
