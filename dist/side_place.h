#pragma once
// Where a rank of a side channel is, as a line of text that the ranks tell each other as it opens.
// For dist/side_channel.cpp.

#include <sys/types.h>

#include <cstdint>
#include <iomanip>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace rondo::dist::side {

/// Where and who a rank is.
struct Place {
  int port = 0;  // 0: it does not listen
  pid_t process = 0;
  std::string host, token;             // dist::host(); the token counts from rank 0
  std::int64_t timeout = 0, beat = 0;  // ms; rank 0's are everybody's
  std::vector<std::string> addresses;

  std::string name() const { return host.substr(0, host.find(' ')); }
};

inline std::string text_of(const Place& place) {
  std::ostringstream out;
  out << place.port << ' ' << place.process << ' ' << std::quoted(place.host) << ' ' << place.token
      << ' ' << place.timeout << ' ' << place.beat;
  for (const std::string& address : place.addresses) out << ' ' << address;
  return std::move(out).str();
}

inline Place read_place(const std::string& text) {
  std::istringstream in(text);
  Place place;
  in >> place.port >> place.process >> std::quoted(place.host) >> place.token >> place.timeout >>
      place.beat;
  for (std::string address; in >> address;) place.addresses.push_back(address);
  return place;
}

inline std::string draw_token() {
  std::random_device random;
  std::ostringstream out;
  for (int i = 0; i < 4; ++i) out << std::hex << std::setw(8) << std::setfill('0') << random();
  return std::move(out).str();
}

}  // namespace rondo::dist::side
