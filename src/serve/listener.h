// Where `replay --serve` listens: a TCP port, of this machine alone unless a host is said, or a unix socket.
#pragma once
#include <string>

#include "base/fd.h"

namespace backstep::serve {

Fd accept_connection(int listener);

class Listener {
 public:
  // [HOST:]PORT, or a path (with a slash in it, or behind "unix:"). Throws Error.
  explicit Listener(const std::string& where);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  Fd accept_one() const { return accept_connection(fd_.get()); }
  const std::string& shown() const { return shown_; }  // as gdb's `target extended-remote` takes it
  // Other machines can connect, too: whoever does controls the replay, and reads all that is in it.
  bool is_open_to_others() const { return open_to_others_; }

 private:
  void listen_tcp(const std::string& where);
  void listen_unix(const std::string& path);

  Fd fd_;
  std::string shown_, path_;  // path_: of the socket, to be removed
  bool open_to_others_ = false;
};

}  // namespace backstep::serve
