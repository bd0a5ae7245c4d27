#pragma once
// Sockets as a side channel needs them (dist/side_calls.cpp): TCP between machines and, within one,
// Unix domain sockets with abstract names (man 7 unix). They never block and never throw; what
// cannot be made is an empty Socket.

#include <string>
#include <vector>

namespace rondo::dist {

/// A file that is closed with its owner: a socket, or what else can be polled.
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

  /// Sends what fits and takes it off `bytes`.
  void send(std::string& bytes) const;
  /// Appends what has come. `silent`: the system has given the other side up, having heard nothing.
  enum class Line { open, ended, silent };
  Line receive(std::string& bytes) const;
  /// Whether what connect_to began has come about.
  bool is_connected() const;
  /// Of a socket of Unix: whether the process on the other side is of the same user.
  bool is_of_same_user() const;

 private:
  int file_ = -1;
};

/// Listens on all addresses of this machine, on `port`; on one that the system chooses, and tells,
/// if that is 0.
Socket listen_anywhere(int& port);
/// Listens where connect_to("@name", 0) of the same machine (and network namespace) calls.
Socket listen_by_name(const std::string& name);
/// One who has called, or empty; `is_full`: this process can have no more files.
Socket accept_from(const Socket& listener, bool& is_full);
/// Begins to connect, to an address or to "@name" within the machine; writable when that is over.
Socket connect_to(const std::string& address, int port);
/// The addresses of a host of this name, as the system's resolver has them: none if it has none. It
/// may take seconds.
std::vector<std::string> addresses_of(const std::string& host);
/// Where others reach this machine: "10.0.0.7", "2001:db8::7"; not what means itself on each.
std::vector<std::string> own_addresses();

}  // namespace rondo::dist
