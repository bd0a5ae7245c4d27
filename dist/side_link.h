#pragma once
// One connection of a side channel, and what travels on it: one byte that says what it is, two of
// length (the lower one first), the bytes.
//
//   hello    who (side_place.h)   both sides, the caller first; no other message before it
//   beat                          now and then; the caller's first one ends the greeting
//   leaving  ranks                whose programs have come to their end, MPI perhaps not
//   bye                           the sender ends in order: its last message
//   ended    a sentence           someone has ended
//   failed   a sentence           someone's collective has failed
//
// For dist/side_links.cpp, where the connections come from and go to.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "dist/side_place.h"
#include "dist/sockets.h"
#include "dist/transport.h"

namespace rondo::dist::side {

inline constexpr std::size_t longest = 1000;  // bytes of a message

enum class Kind : char {
  hello = 'h',
  beat = '.',
  leaving = 'l',
  bye = 'b',
  ended = 'e',
  failed = 'f'
};

inline std::string message(Kind kind, const std::string& text = {}) {
  const std::size_t n = std::min(text.size(), longest);
  return std::string{static_cast<char>(kind), static_cast<char>(n & 255),
                     static_cast<char>(n >> 8)} +
         text.substr(0, n);
}

struct Message {
  Kind kind = Kind::beat;
  std::string text;
};

enum class Stage {
  pausing,     // before the next attempt to connect
  connecting,  // the system is at it
  greeting,    // this rank has called and greeted
  stranger,    // somebody has called
  greeted,     // and has been greeted, but may not know yet
  joined,
  parting,  // the peer has said bye and waits for this rank's
  over
};

struct Link {
  Stage stage = Stage::stranger;
  int peer = -1;
  bool calls = false;  // this rank the peer
  Socket socket = {};
  bool is_local = false;           // a socket of Unix
  bool has_warned = false;         // that the peer does not end
  std::string token = {};          // of both greetings: the caller's choice
  Clock::time_point since, heard;  // when the stage began; when something came
  std::vector<Address> addresses;  // of a peer that this rank calls
  std::size_t attempt = 0;
  Hello hello = {};  // the peer's, from `greeted` and `joined` on
  std::string in = {}, out = {};

  bool has_joined() const { return stage == Stage::joined || stage == Stage::parting; }
  bool counts() const { return has_joined() || stage == Stage::greeted; }
  void flush() {
    if (!out.empty()) socket.send(out);
  }
  void say(Kind kind, const std::string& text = {}) {
    out += message(kind, text);
    flush();
  }
  void finish() {
    socket.close();
    stage = Stage::over;
  }
  /// Whether there was a whole message. One that cannot be a message ends the link.
  bool next(Message& message) {
    if (in.size() < 3) return false;
    const std::size_t n = static_cast<unsigned char>(in[1]) | static_cast<unsigned char>(in[2])
                                                                  << 8;
    if (n > longest) finish();
    if (n > longest || in.size() < 3 + n) return false;
    message = {.kind = static_cast<Kind>(in[0]), .text = in.substr(3, n)};
    in.erase(0, 3 + n);
    return true;
  }
};

}  // namespace rondo::dist::side
