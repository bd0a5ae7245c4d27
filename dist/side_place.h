#pragma once
// Where the ranks of a side channel are and what they say to each other first, as text. For
// dist/side_channel.cpp.

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <iomanip>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "dist/host.h"

namespace rondo::dist::side {

/// For connect_to (dist/sockets.h).
struct Address {
  std::string text;  // "10.0.0.7", "@name"
  int port = 0;
};

/// "node7" of "node7 <boot id>".
inline std::string name_of(const std::string& host) { return host.substr(0, host.find(' ')); }

/// What a connection begins with, from both sides.
struct Hello {
  std::string token;
  int from = -1, to = -1;
  pid_t process = 0;
  std::int64_t timeout = 0;  // ms; both sides go by the longer one
  std::string host;          // dist::host()
};

inline std::string text_of(const Hello& hello) {
  std::ostringstream out;
  out << hello.token << ' ' << hello.from << ' ' << hello.to << ' ' << hello.process << ' '
      << hello.timeout << ' ' << std::quoted(hello.host);
  return std::move(out).str();
}

/// What is not there is as in Hello().
inline Hello read_hello(const std::string& text) {
  std::istringstream in(text);
  Hello hello;
  in >> hello.token >> hello.from >> hello.to >> hello.process >> hello.timeout >>
      std::quoted(hello.host);
  return in.fail() ? Hello() : hello;
}

/// Where a rank is, as the ranks tell each other when MPI has started.
struct Place {
  int port = 0;      // of the addresses of IP; 0: it does not listen there
  std::string name;  // of its socket of Unix
  std::string host;  // dist::host()
  std::string token;
  std::vector<std::string> addresses;
};

inline std::string text_of(const Place& place) {
  std::ostringstream out;
  out << place.port << ' ' << std::quoted(place.name) << ' ' << std::quoted(place.host) << ' '
      << std::quoted(place.token);
  for (const std::string& address : place.addresses) out << ' ' << address;
  return std::move(out).str();
}

inline Place read_place(const std::string& text) {
  std::istringstream in(text);
  Place place;
  in >> place.port >> std::quoted(place.name) >> std::quoted(place.host) >>
      std::quoted(place.token);
  for (std::string address; in >> address;) place.addresses.push_back(address);
  return place;
}

/// 128 bits that nobody can guess.
inline std::string draw_token() {
  std::random_device random;
  std::ostringstream out;
  for (int i = 0; i < 4; ++i) out << std::hex << std::setw(8) << std::setfill('0') << random();
  return std::move(out).str();
}

}  // namespace rondo::dist::side
