// libedit does the work. It reads Ctrl-C as a key (the terminal makes no signal of it while a line is
// edited): a signal would come somewhere in the library, which cannot be left there. The library shows the
// prompt first and changes the terminal's mode then, so a Ctrl-C typed in between would be a signal after
// all, and a Ctrl-D nothing at all (the terminal keeps it as a zero byte); we change the mode before.
#include "cli/line_editor.h"

#include <histedit.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace backstep::cli {

struct LineEditor::State {
  std::string history_path;
  Completions completions;
  std::string prompt;
  bool cancelled = false;
  EditLine* editor = nullptr;
  History* history = nullptr;
};

namespace {

constexpr int kMostLines = 1000;
constexpr const char* kBreaks = " \t\n\"'`<>=;|&(){},.+*/%!-";  // what ends a word

}  // namespace

LineEditor::LineEditor(std::string history, Completions completions) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.history_path = std::move(history);
  s.completions = std::move(completions);
  s.history = history_init();
  HistEvent event;
  ::history(s.history, &event, H_SETSIZE, kMostLines);
  ::history(s.history, &event, H_SETUNIQUE, 1);
  if (!s.history_path.empty()) ::history(s.history, &event, H_LOAD, s.history_path.c_str());

  s.editor = el_init("backstep", stdin, stdout, stderr);
  el_set(s.editor, EL_CLIENTDATA, &s);
  el_set(s.editor, EL_SIGNAL, 0);
  el_set(s.editor, EL_EDITOR, "emacs");
  el_set(s.editor, EL_HIST, ::history, s.history);
  using Prompt = char* (*)(EditLine*);
  const Prompt prompt = [](EditLine* editor) {
    State* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    return state->prompt.data();
  };
  el_set(s.editor, EL_PROMPT, prompt);
  using Key = unsigned char (*)(EditLine*, int);
  const Key cancel = [](EditLine* editor, int) -> unsigned char {
    State* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    state->cancelled = true;
    std::fputs("^C\n", stdout);
    return CC_EOF;
  };
  const Key complete = [](EditLine* editor, int) -> unsigned char {
    State* state = nullptr;
    el_get(editor, EL_CLIENTDATA, &state);
    const LineInfo* line = el_line(editor);
    const std::string before(line->buffer, line->cursor);
    const size_t last = before.find_last_of(kBreaks);
    const std::string word = before.substr(last == std::string::npos ? 0 : last + 1);
    const auto matches = state->completions(before, word);
    if (matches.empty()) return CC_REFRESH_BEEP;
    std::string common = matches[0];
    for (const std::string& m : matches) {
      auto [end, other] = std::mismatch(common.begin(), common.end(), m.begin(), m.end());
      common.erase(end, common.end());
    }
    if (matches.size() == 1 && !common.ends_with('(')) common += ' ';
    if (common.size() > word.size() || (matches.size() == 1 && common != word)) {
      // As it is spelt, in place of what was typed.
      el_deletestr(editor, static_cast<int>(word.size()));
      el_insertstr(editor, common.c_str());
      return CC_REFRESH;
    }
    std::fputc('\n', stdout);
    for (const std::string& m : matches) std::printf("%s  ", m.c_str());
    std::fputc('\n', stdout);
    return CC_REDISPLAY;
  };
  el_set(s.editor, EL_ADDFN, "cancel-line", "Drop the line", cancel);
  el_set(s.editor, EL_ADDFN, "complete-word", "Complete a word", complete);
  el_set(s.editor, EL_BIND, "^C", "cancel-line", nullptr);
  el_set(s.editor, EL_BIND, "^I", "complete-word", nullptr);
  el_set(s.editor, EL_SETTY, "-d", "-isig", nullptr);
}

LineEditor::~LineEditor() {
  HistEvent event;
  const mode_t before = umask(0077);
  if (!state_->history_path.empty()) ::history(state_->history, &event, H_SAVE, state_->history_path.c_str());
  umask(before);
  el_end(state_->editor);
  history_end(state_->history);
}

std::optional<LineEditor::Line> LineEditor::read(const std::string& prompt) {
  state_->prompt = prompt;
  state_->cancelled = false;
  el_set(state_->editor, EL_PREP_TERM, 1);
  int count = 0;
  const char* text = el_gets(state_->editor, &count);
  if (state_->cancelled) {
    el_reset(state_->editor);
    return Line{"", true};
  }
  if (!text || count <= 0) return std::nullopt;
  std::string line(text, static_cast<size_t>(count));
  if (line.ends_with('\n')) line.pop_back();
  return Line{line, false};
}

void LineEditor::remember(const std::string& line) {
  HistEvent event;
  ::history(state_->history, &event, H_ENTER, line.c_str());
}

}  // namespace backstep::cli
