#pragma once
// Sockets for the side channel (dist/failure/side_connect.cpp): TCP between machines and, within
// one machine, Unix domain sockets with abstract names (man 7 unix). They never block. Only
// `own_addresses` throws; the other functions return an empty Socket if they cannot create one.

#include <cstddef>
#include <string>
#include <vector>

namespace rondo::dist {

/// Owns and closes the file descriptor of a socket, or of another file that can be polled.
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
  /// Sends end of file. Data from the other side can still be read.
  void close_for_writing() const;

  /// Sends as much as possible without blocking, and removes it from `bytes`.
  void send(std::string& bytes) const;
  /// Appends what has arrived, up to a size of `at_most`. `lost`: the kernel has given up the
  /// connection, since the other machine does not answer.
  enum class Line { open, ended, lost };
  Line receive(std::string& bytes, std::size_t at_most = std::size_t{1} << 16) const;
  /// Whether the connection that connect_tcp or connect_unix started is established.
  bool is_connected() const;
  /// For a Unix domain socket: whether the process on the other side belongs to the same user.
  bool is_of_same_user() const;

 private:
  int file_ = -1;
};

/// Listens on a port that the system chooses, on `interface`, or on all if that is empty.
Socket listen_tcp(const std::string& interface, int& port);
/// Listens for connect_unix(name) on the same machine and in the same network namespace.
Socket listen_unix(const std::string& name);
/// The next incoming connection, or empty. `is_full`: this process, or the system, cannot open more
/// files.
Socket accept_from(const Socket& listener, bool& is_full);
/// Starts to connect. The socket becomes writable when it has succeeded or failed.
Socket connect_tcp(const std::string& address, int port);
Socket connect_unix(const std::string& name);
/// The addresses at which other machines reach this one, on `interface`, or on any if that is
/// empty: "10.0.0.7", "2001:db8::7". No loopback or link-local addresses. Throws CommError if
/// `interface` does not exist, is down or has no address.
std::vector<std::string> own_addresses(const std::string& interface);

}  // namespace rondo::dist
