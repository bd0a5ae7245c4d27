#pragma once
// Random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3").
//
// Philox is a function without state: block i of stream (seed, stream) is a hash of these numbers.
// So any thread, rank or device can draw any element independently, and integers and uniforms are
// bit-identical on CPU and CUDA. A Generator is only a seed and the number of the next unused
// stream; a checkpoint stores just this pair.

#include <array>
#include <cstdint>
#include <mutex>

#include "tensor/dtype.h"

namespace rondo {

struct Philox {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  const std::uint64_t* shift = nullptr;  // if set, added to `stream` when numbers are drawn

  /// Four 32-bit words: block `index` of this stream.
  RONDO_HD std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    std::uint32_t c0 = static_cast<std::uint32_t>(index),
                  c1 = static_cast<std::uint32_t>(index >> 32);
    const std::uint64_t shifted = shift == nullptr ? stream : stream + *shift;
    std::uint32_t c2 = static_cast<std::uint32_t>(shifted);
    std::uint32_t c3 = static_cast<std::uint32_t>(shifted >> 32);
    std::uint32_t k0 = static_cast<std::uint32_t>(seed),
                  k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
      std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return {c0, c1, c2, c3};
  }
  /// Word i of the stream: word i % 4 of block i / 4.
  RONDO_HD std::uint32_t word(std::uint64_t i) const { return block(i / 4)[i % 4]; }
  /// Words 2i and 2i+1 as one 64-bit number.
  RONDO_HD std::uint64_t word64(std::uint64_t i) const {
    auto b = block(i / 2);
    return i % 2 ? b[2] | std::uint64_t{b[3]} << 32 : b[0] | std::uint64_t{b[1]} << 32;
  }
};

/// 24 bits of a word as a float in [0, 1).
RONDO_HD inline float uniform_float(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}
/// 53 bits of two words as a double in [0, 1).
RONDO_HD inline double uniform_double(std::uint64_t word) {
  return static_cast<double>(word >> 11) * 0x1p-53;
}
/// An integer in [0, range) from 64 random bits: the high half of the product. The bias is below
/// 2^-32 for ranges below 2^32.
RONDO_HD inline std::uint64_t uniform_below(std::uint64_t word, std::uint64_t range) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(word, range);
#else
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(word) * range >> 64);
#endif
}

/// Hands out disjoint parts of a Philox sequence. Thread-safe.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}

  struct State {
    std::uint64_t seed, next_stream;
    bool operator==(const State&) const = default;
  };

  /// A stream that no other caller gets. Each random kernel call takes one.
  Philox next();
  void manual_seed(std::uint64_t seed);
  // On a thread with a Replayable, these use that thread's separate count.
  State state() const;
  void set_state(State state);

  /// While this object exists, the calling thread's streams are counted from 0 and shifted by the
  /// number at `shift` when they are used. So a captured graph draws new numbers in every replay
  /// (tensor/cuda_graph.h).
  class Replayable {
   public:
    explicit Replayable(const std::uint64_t* shift);
    ~Replayable();
    Replayable(const Replayable&) = delete;
    Replayable& operator=(const Replayable&) = delete;
  };

 private:
  mutable std::mutex mutex_;
  std::uint64_t seed_;
  std::uint64_t next_stream_ = 0;
};

/// The generator that rand, randn, dropout and the initialisers draw from.
Generator& default_generator();
/// Seeds it, so that a program draws the same numbers in every run.
void manual_seed(std::uint64_t seed);

}  // namespace rondo
