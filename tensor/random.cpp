#include "tensor/random.h"

namespace rondo {

namespace {

struct Replay {
  const std::uint64_t* shift = nullptr;
  std::uint64_t drawn = 0;
};
thread_local Replay replay;

}  // namespace

Philox Generator::next() {
  std::lock_guard lock(mutex_);
  if (replay.shift != nullptr) return {seed_, replay.drawn++, replay.shift};
  return {seed_, next_stream_++};
}

Generator::Replayable::Replayable(const std::uint64_t* shift) { replay = {shift}; }
Generator::Replayable::~Replayable() { replay = {}; }

void Generator::manual_seed(std::uint64_t seed) {
  std::lock_guard lock(mutex_);
  seed_ = seed;
  next_stream_ = 0;
}

Generator::State Generator::state() const {
  std::lock_guard lock(mutex_);
  return {seed_, replay.shift == nullptr ? next_stream_ : replay.drawn};
}

void Generator::set_state(State state) {
  std::lock_guard lock(mutex_);
  seed_ = state.seed;
  (replay.shift == nullptr ? next_stream_ : replay.drawn) = state.next_stream;
}

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace rondo
