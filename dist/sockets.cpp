#include "dist/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
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
Socket begin(const Address& address, int family) {
  Socket socket(::socket(family, stream, 0));
  if (!socket) return {};
  set(socket.file(), IPPROTO_TCP, TCP_NODELAY, 1);
  const int status =
      connect(socket.file(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (status != 0 && errno != EINPROGRESS) return {};
  return socket;
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

Socket listen_anywhere(int& port) {
  sockaddr_in6 both = {};
  both.sin6_family = AF_INET6;
  both.sin6_addr = in6addr_any;
  if (Socket socket = listen_on(both, AF_INET6, port)) return socket;
  sockaddr_in old = {};
  old.sin_family = AF_INET;
  old.sin_addr.s_addr = htonl(INADDR_ANY);
  return listen_on(old, AF_INET, port);
}

Socket accept_from(const Socket& listener, bool& is_full) {
  Socket socket(accept4(listener.file(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  is_full = !socket && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR;
  if (socket) set(socket.file(), IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

Socket connect_to(const std::string& address, int port) {
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

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 ||
        (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    const int family = one->ifa_addr->sa_family;
    const void* address = nullptr;
    if (family == AF_INET) {
      address = &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    } else if (family == AF_INET6) {
      const auto* six = &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
      if (!IN6_IS_ADDR_LINKLOCAL(six)) address = six;
    }
    char text[INET6_ADDRSTRLEN];
    if (address != nullptr && inet_ntop(family, address, text, sizeof text) != nullptr)
      addresses.emplace_back(text);
  }
  freeifaddrs(all);
  return addresses;
}

}  // namespace rondo::dist
