#pragma once
// Sockets as a side channel needs them (dist/failure/side_connect.cpp): TCP between machines and,
// within one, Unix domain sockets with abstract names (man 7 unix). They never block. Except for
// `own_addresses` they never throw: a socket that cannot be made is an empty Socket.

#include <cstddef>
#include <string>
#include <vector>

namespace rondo::dist {

/// A file descriptor that is closed with its owner: a socket, or another one that can be polled.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  int file() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }
  void close();
  /// Sends the end of file; what the other side sends can still be read.
  void close_for_writing() const;

  /// Sends what fits and removes it from `bytes`.
  void send(std::string& bytes) const;
  /// Appends what has come, up to a size of `at_most`. `lost`: the system has given up the
  /// connection, since the other machine does not answer.
  enum class Line { open, ended, lost };
  Line receive(std::string& bytes, std::size_t at_most = std::size_t{1} << 16) const;
  /// Whether the connection that connect_tcp or connect_unix began is there.
  bool is_connected() const;
  /// Of a Unix domain socket: whether the process on the other side is of the same user.
  bool is_of_same_user() const;

 private:
  int file_ = -1;
};

/// Listens on a port that the system chooses, on `interface` or, if that is empty, on all.
Socket listen_tcp(const std::string& interface, int& port);
/// Listens where connect_unix(name) of the same machine and network namespace calls.
Socket listen_unix(const std::string& name);
/// The next process that has called, or empty; `is_full`: this process, or the system, can have no
/// more files.
Socket accept_from(const Socket& listener, bool& is_full);
/// Begins to connect; the socket is writable when it has succeeded or failed.
Socket connect_tcp(const std::string& address, int port);
Socket connect_unix(const std::string& name);
/// Where other machines reach this one, on `interface` or, if that is empty, on any: "10.0.0.7",
/// "2001:db8::7"; no loopback or link-local addresses. Throws CommError if `interface` does not
/// exist, is down or has no address.
std::vector<std::string> own_addresses(const std::string& interface);

}  // namespace rondo::dist
