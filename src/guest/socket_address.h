// Addresses of sockets, as people write them: "10.0.0.1:80", "[fe80::1]:80", "/run/x.sock", "@abstract".
#pragma once
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace backstep::guest {

struct SocketAddress {
  int family = AF_UNSPEC;
  std::string host;  // AF_INET, AF_INET6: the address's bytes; one that is only wrapped in IPv6 is IPv4
  uint16_t port = 0;
  std::string path;  // AF_UNIX; an abstract name begins with a zero

  explicit operator bool() const { return family != AF_UNSPEC && (family != AF_UNIX || !path.empty()); }
  bool is_inet() const { return !host.empty(); }
  bool is_any() const;       // 0.0.0.0, ::
  bool is_loopback() const;  // 127.…, ::1
  std::string text() const;  // empty: none
  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
  friend auto operator<=>(const SocketAddress&, const SocketAddress&) = default;
};

// From a sockaddr. What makes no sense is no address.
SocketAddress socket_address(std::span<const std::byte> bytes);

}  // namespace backstep::guest
