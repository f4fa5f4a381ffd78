// Lines over a descriptor, as a protocol of one message per line needs them.
#pragma once
#include <optional>
#include <string>

namespace backstep::serve {

class Lines {
 public:
  static constexpr size_t kLongest = 16 << 20;  // of one message

  Lines(int in, int out) : in_(in), out_(out) {}

  // The next one, without its end; nullopt: the other side is gone. A line that is too long is an empty one,
  // with `too_long` set.
  std::optional<std::string> next(bool* too_long);
  // One that is there already; nullopt: none is, yet.
  std::optional<std::string> waiting();
  bool ended() const { return ended_; }  // nothing more will come
  bool unheard() const;                  // nobody reads what we say
  int in() const { return in_; }
  // False: the other side is gone.
  bool put(const std::string& line);

 private:
  bool fill();  // waits; false: the end
  std::optional<std::string> take(bool* too_long);

  int in_, out_;
  std::string read_;
  bool skipping_ = false;  // the rest of a line that was too long
  bool ended_ = false;
};

}  // namespace backstep::serve
