// The process of a session: started, spoken to in lines, ended.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace backstep {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  int release();

 private:
  int fd_ = -1;
};

class Child {
 public:
  // Finds the program (OpenOptions::program says where) and starts it; an Error if that is not possible.
  Child(const std::string& program, const std::vector<std::string>& args);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  // Never raises SIGPIPE: if the child is gone, next() says so.
  void put(const std::string& line);
  // Waits for it; none: the child says no more.
  std::optional<std::string> next();

  // Closes its input and output, and waits until it has ended; it is killed if it does not.
  void end();
  // Why it has ended, a sentence: what it said on stderr, or its signal. Ends it.
  std::string last_words();

 private:
  Fd socket_;  // its stdin and stdout
  Fd stderr_;  // a file without a name
  pid_t pid_ = -1, owner_ = -1;
  int status_ = 0;
  std::string read_;     // and not taken yet,
  size_t taken_ = 0;     // from here on;
  size_t searched_ = 0;  // up to here there is no end of a line
};

}  // namespace backstep
