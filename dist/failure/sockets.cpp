#include "dist/failure/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "tensor/error.h"
#include "tensor/printable.h"

namespace rondo::dist {
namespace {

Socket make_socket(int family) {
  return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void set(const Socket& socket, int level, int option, int value) {
  setsockopt(socket.file(), level, option, &value, sizeof value);
}

template <class Address>
const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

bool listens(const Socket& socket, const sockaddr* address, socklen_t length) {
  return socket && bind(socket.file(), address, length) == 0 &&
         listen(socket.file(), SOMAXCONN) == 0;
}

Socket begin(Socket socket, const sockaddr* address, socklen_t length) {
  if (!socket) return {};
  if (connect(socket.file(), address, length) != 0 && errno != EINPROGRESS) return {};
  return socket;
}

// A name that begins with a zero byte is not in the file system, and ends with its socket.
sockaddr_un unix_address(const std::string& name, socklen_t& length) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::size_t n = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), n);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  return address;
}

/// Empty for addresses that other machines cannot use.
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

void Socket::close_for_writing() const { shutdown(file_, SHUT_WR); }

void Socket::send(std::string& bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // `receive` will report the error
    bytes.erase(0, static_cast<std::size_t>(sent));
  }
}

Socket::Line Socket::receive(std::string& bytes, std::size_t at_most) const {
  char part[4096];
  while (bytes.size() < at_most) {
    const std::size_t wanted = std::min(sizeof part, at_most - bytes.size());
    const ssize_t got = recv(file_, part, wanted, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Line::open;
    if (got < 0) return errno == ECONNRESET || errno == EPIPE ? Line::ended : Line::lost;
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

Socket listen_tcp(const std::string& interface, int& port) {
  for (const int family : {AF_INET6, AF_INET}) {  // the first accepts both, if there is IPv6
    sockaddr_in6 any = {};                        // both kinds begin with the same fields
    any.sin6_family = static_cast<sa_family_t>(family);
    socklen_t length = family == AF_INET6 ? sizeof any : sizeof(sockaddr_in);
    Socket socket = make_socket(family);
    if (family == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    // Before Linux 5.7 only root may do this.
    if (!interface.empty() &&
        setsockopt(socket.file(), SOL_SOCKET, SO_BINDTODEVICE, interface.data(),
                   static_cast<socklen_t>(interface.size())) != 0)
      std::fprintf(
          stderr,
          "warning: RONDO_SOCKET_IFNAME: the system does not restrict a socket to %s (%s), "
          "so all interfaces accept connections of ranks\n",
          printable(interface).c_str(), std::strerror(errno));
    if (listens(socket, generic(any), length) &&
        getsockname(socket.file(), reinterpret_cast<sockaddr*>(&any), &length) == 0) {
      port = ntohs(any.sin6_port);
      return socket;
    }
  }
  return {};
}

Socket listen_unix(const std::string& name) {
  socklen_t length = 0;
  const sockaddr_un address = unix_address(name, length);
  Socket socket = make_socket(AF_UNIX);
  if (!listens(socket, generic(address), length)) return {};
  return socket;
}

Socket accept_from(const Socket& listener, bool& is_full) {
  Socket socket(accept4(listener.file(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  is_full = !socket && (errno == EMFILE || errno == ENFILE);
  if (socket) set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

Socket connect_tcp(const std::string& address, int port) {
  sockaddr_in four = {};
  sockaddr_in6 six = {};
  const bool is_four = inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1;
  if (!is_four && inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) != 1) return {};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  four.sin_port = six.sin6_port = htons(static_cast<std::uint16_t>(port));
  Socket socket = make_socket(is_four ? AF_INET : AF_INET6);
  if (socket) set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return is_four ? begin(std::move(socket), generic(four), sizeof four)
                 : begin(std::move(socket), generic(six), sizeof six);
}

Socket connect_unix(const std::string& name) {
  socklen_t length = 0;
  const sockaddr_un address = unix_address(name, length);
  return begin(make_socket(AF_UNIX), generic(address), length);
}

std::vector<std::string> own_addresses(const std::string& interface) {
  std::vector<std::string> addresses;
  std::set<std::string> interfaces;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
      interfaces.insert(one->ifa_name);
      const bool is_wanted =
          interface.empty() ? (one->ifa_flags & IFF_LOOPBACK) == 0 : interface == one->ifa_name;
      std::string text = is_wanted ? text_of(*one->ifa_addr) : "";
      if (!text.empty()) addresses.push_back(std::move(text));
    }
    freeifaddrs(all);
  }
  if (!interface.empty() && addresses.empty()) {
    std::string there;
    for (const std::string& name : interfaces) there += (there.empty() ? "" : ", ") + name;
    throw CommError(concat("RONDO_SOCKET_IFNAME is \"", interface,
                           "\", which is not a network interface of this machine that is up and "
                           "has an address; use one of ",
                           there));
  }
  return addresses;
}

}  // namespace rondo::dist
