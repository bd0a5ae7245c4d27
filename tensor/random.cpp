#include "tensor/random.h"

namespace rondo {

Philox Generator::next() {
  std::lock_guard lock(mutex_);
  return {seed_, next_stream_++};
}

void Generator::manual_seed(std::uint64_t seed) {
  std::lock_guard lock(mutex_);
  seed_ = seed;
  next_stream_ = 0;
}

Generator::State Generator::state() const {
  std::lock_guard lock(mutex_);
  return {seed_, next_stream_};
}

void Generator::set_state(State state) {
  std::lock_guard lock(mutex_);
  seed_ = state.seed;
  next_stream_ = state.next_stream;
}

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

}  // namespace rondo
