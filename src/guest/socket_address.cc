// A sockaddr's bytes, which may be a stranger's, as a value.
#include "guest/socket_address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

namespace backstep::guest {

SocketAddress socket_address(std::span<const std::byte> bytes) {
  SocketAddress a;
  const char* p = reinterpret_cast<const char*>(bytes.data());
  uint16_t family = 0;
  if (bytes.size() < sizeof family) return a;
  std::memcpy(&family, p, sizeof family);
  auto at_port = [&] {
    uint16_t port;
    std::memcpy(&port, p + 2, sizeof port);
    return ntohs(port);
  };
  constexpr size_t kInet = 8, kInet6 = 24;
  if (family == AF_INET && bytes.size() >= kInet) {
    a.family = AF_INET, a.port = at_port(), a.host.assign(p + 4, 4);
  } else if (family == AF_INET6 && bytes.size() >= kInet6) {
    a.family = AF_INET6, a.port = at_port(), a.host.assign(p + 8, 16);
    static constexpr char kWrapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1};
    if (std::memcmp(a.host.data(), kWrapped, sizeof kWrapped) == 0) a.host.erase(0, sizeof kWrapped);
    if (a.host.size() == 4 || a.is_any())
      a.family = AF_INET, a.host = a.is_any() ? std::string(4, 0) : a.host;
  } else if (family == AF_UNIX) {
    a.family = AF_UNIX;
    a.path.assign(p + sizeof family, bytes.size() - sizeof family);
    // A path ends with a zero; an abstract name is as long as the address.
    if (!a.path.empty() && a.path[0]) a.path.resize(std::strlen(a.path.c_str()));
  } else {
    a.family = family == AF_INET || family == AF_INET6 ? AF_UNSPEC : family;
  }
  return a;
}

bool SocketAddress::is_any() const {
  return is_inet() && std::all_of(host.begin(), host.end(), [](char c) { return c == 0; });
}

bool SocketAddress::is_loopback() const {
  constexpr char kLoopback = 127;
  if (host.size() == 4) return host[0] == kLoopback;
  return host.size() == 16 && host.back() == 1 &&
         std::all_of(host.begin(), host.end() - 1, [](char c) { return c == 0; });
}

std::string SocketAddress::text() const {
  if (host.size() == 4 || host.size() == 16) {
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(host.size() == 4 ? AF_INET : AF_INET6, host.data(), text, sizeof text);
    const std::string name = host.size() == 4 ? text : "[" + std::string(text) + "]";
    return name + ":" + std::to_string(port);
  }
  if (path.empty()) return "";
  std::string name = path;
  std::replace(name.begin(), name.end(), '\0', '@');
  return name;
}

}  // namespace backstep::guest
