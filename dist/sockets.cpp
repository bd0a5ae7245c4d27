#include "dist/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace rondo::dist {
namespace {

constexpr int stream = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

void set(int file, int level, int option, int value) {
  setsockopt(file, level, option, &value, sizeof value);
}

template <class Address>
Socket listen_on(const Address& address, int family, int& port) {
  Socket socket(::socket(family, stream, 0));
  if (!socket) return {};
  if (family == AF_INET6) set(socket.file(), IPPROTO_IPV6, IPV6_V6ONLY, 0);  // IPv4, too
  Address bound = address;
  socklen_t length = sizeof bound;
  if (bind(socket.file(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket.file(), SOMAXCONN) != 0 ||
      getsockname(socket.file(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    return {};
  if constexpr (requires { bound.sin6_port; }) {
    port = ntohs(bound.sin6_port);
  } else {
    port = ntohs(bound.sin_port);
  }
  return socket;
}

template <class Address>
Socket begin(const Address& address, int family, socklen_t length = sizeof(Address)) {
  Socket socket(::socket(family, stream, 0));
  if (!socket) return {};
  if (family != AF_UNIX) set(socket.file(), IPPROTO_TCP, TCP_NODELAY, 1);
  const int status = connect(socket.file(), reinterpret_cast<const sockaddr*>(&address), length);
  if (status != 0 && errno != EINPROGRESS) return {};
  return socket;
}

// A name that begins with a zero is in no folder, and goes with its socket.
sockaddr_un unix_address(const std::string& name, socklen_t& length) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::size_t n = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), n);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  return address;
}

std::string text_of(const sockaddr& address) {
  const void* bytes = nullptr;
  if (address.sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  } else if (address.sa_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&six)) bytes = &six;
  }
  char text[INET6_ADDRSTRLEN];
  const bool has_text =
      bytes != nullptr && inet_ntop(address.sa_family, bytes, text, sizeof text) != nullptr;
  return has_text ? text : "";
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

void Socket::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void Socket::send(std::string& bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // what is wrong with it, receive will say
    bytes.erase(0, static_cast<std::size_t>(sent));
  }
}

Socket::Line Socket::receive(std::string& bytes) const {
  constexpr std::size_t at_most = 1 << 16;  // a time: whoever floods this one waits for the others
  char part[4096];
  while (bytes.size() < at_most) {
    const ssize_t got = recv(file_, part, sizeof part, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Line::open;
    if (got < 0) return errno == ECONNRESET || errno == EPIPE ? Line::ended : Line::silent;
    if (got == 0) return Line::ended;
    bytes.append(part, static_cast<std::size_t>(got));
  }
  return Line::open;
}

bool Socket::is_connected() const {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(file_, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

bool Socket::is_of_same_user() const {
  ucred other = {};
  socklen_t length = sizeof other;
  return getsockopt(file_, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == geteuid();
}

Socket listen_anywhere(int& port) {
  sockaddr_in6 both = {};
  both.sin6_family = AF_INET6;
  both.sin6_addr = in6addr_any;
  both.sin6_port = htons(static_cast<std::uint16_t>(port));
  if (Socket socket = listen_on(both, AF_INET6, port)) return socket;
  sockaddr_in old = {};
  old.sin_family = AF_INET;
  old.sin_addr.s_addr = htonl(INADDR_ANY);
  old.sin_port = htons(static_cast<std::uint16_t>(port));
  return listen_on(old, AF_INET, port);
}

Socket listen_by_name(const std::string& name) {
  socklen_t length = 0;
  const sockaddr_un address = unix_address(name, length);
  Socket socket(::socket(AF_UNIX, stream, 0));
  if (!socket || bind(socket.file(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(socket.file(), SOMAXCONN) != 0)
    return {};
  return socket;
}

Socket accept_from(const Socket& listener, bool& is_full) {
  Socket socket(accept4(listener.file(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  is_full = !socket && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR;
  if (socket) set(socket.file(), IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

Socket connect_to(const std::string& address, int port) {
  if (address.starts_with('@')) {
    socklen_t length = 0;
    const sockaddr_un name = unix_address(address.substr(1), length);
    return begin(name, AF_UNIX, length);
  }
  sockaddr_in old = {};
  if (inet_pton(AF_INET, address.c_str(), &old.sin_addr) == 1) {
    old.sin_family = AF_INET;
    old.sin_port = htons(static_cast<std::uint16_t>(port));
    return begin(old, AF_INET);
  }
  sockaddr_in6 other = {};
  if (inet_pton(AF_INET6, address.c_str(), &other.sin6_addr) != 1) return {};
  other.sin6_family = AF_INET6;
  other.sin6_port = htons(static_cast<std::uint16_t>(port));
  return begin(other, AF_INET6);
}

std::vector<std::string> addresses_of(const std::string& host) {
  std::vector<std::string> addresses;
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &wanted, &all) != 0) return addresses;
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    if (std::string text = text_of(*one->ai_addr); !text.empty())
      addresses.push_back(std::move(text));
  }
  freeaddrinfo(all);
  return addresses;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 ||
        (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    if (std::string text = text_of(*one->ifa_addr); !text.empty())
      addresses.push_back(std::move(text));
  }
  freeifaddrs(all);
  return addresses;
}

}  // namespace rondo::dist
