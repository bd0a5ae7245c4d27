#pragma once
// What translated PTX calls (README.md). ptx2cpp.py writes one function for each kernel; launch.cpp
// and fibres.cpp run it.

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/device_memory.h"

namespace rondo::ptx {

union B16 {
  std::uint16_t u;
  std::int16_t s;
};
union B32 {
  std::uint32_t u;
  std::int32_t s;
  float f;
};
union B64 {
  std::uint64_t u;
  std::int64_t s;
  double f;
};

struct Kernel;

/// One thread of a GPU.
struct Thread {
  std::uint32_t tid[3], ntid[3], ctaid[3], nctaid[3];
  const Kernel* kernel;
  unsigned char* shared;  // of its block
  std::uint32_t shared_bytes;
  std::uint32_t carry = 0;
  std::uint64_t steps = 0;                    // jumps back: how often its loops ran
  std::uint64_t bytes = 0;                    // that it read or wrote outside of shared memory
  std::uint32_t barriers = 0, exchanges = 0;  // that it has passed
  bool is_sampled = false;                    // its accesses are counted (requests.h)
  std::uint32_t accesses = 0;
};

struct Kernel {
  struct Parameter {
    std::uint32_t offset, size;
  };
  const char* name;  // mangled
  void (*run)(Thread&, unsigned char* parameters);
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes, shared_bytes;
  std::uint32_t most_threads;  // of its __launch_bounds__
  bool collective;             // has barriers, shuffles or votes
};

/// Adds kernels to those that can be launched.
struct Registered {
  template <std::size_t n>
  explicit Registered(const Kernel (&kernels)[n]) {
    for (const Kernel& k : kernels) add(k);
  }
  static void add(const Kernel& kernel);
};

/// Prints what is wrong in which thread, block and kernel, and aborts.
[[noreturn]] void fail(const Thread& t, const char* what);
[[noreturn]] void fail_misaligned(const Thread& t, std::uint64_t address, unsigned bytes);
[[noreturn]] void fail_outside(const Thread& t, std::uint64_t address, unsigned bytes);
[[noreturn]] void fail_shared(const Thread& t, std::uint64_t offset, unsigned bytes);

// ---- memory ----

enum class Access { read, write, atomic };  // atomic: also volatile, and with an order of memory

/// The simulated GPU's memory (support/device_memory.h), and whether races are looked for
/// (races.h).
extern test::DeviceBounds memory;
extern bool looks_for_races;
void note_request(Thread& t, std::uint64_t address, unsigned bytes);
void note_access(const Thread& t, std::uint64_t address, unsigned bytes, Access access,
                 bool shared);

/// A host address of `size` bytes that the kernel accesses. It must be a multiple of `size`, and in
/// a block in use if it is in the GPU's memory.
template <unsigned size, Access access>
std::uint64_t at(Thread& t, std::uint64_t address) {
  constexpr std::uint64_t granule = test::DeviceBounds::granule;
  if (address % size != 0) fail_misaligned(t, address, size);
  t.bytes += size;
  const std::uint64_t offset = address - memory.begin;
  if (offset >= memory.bytes) return address;  // the host's, or a local array
  if (offset % granule + size > memory.valid[offset / granule]) fail_outside(t, address, size);
  if (t.is_sampled) note_request(t, address, size);
  if (looks_for_races) note_access(t, address, size, access, false);
  return address;
}
/// The same of an offset in the block's shared memory.
template <unsigned size, Access access>
std::uint64_t shared_at(Thread& t, std::uint64_t offset) {
  if (offset % size != 0) fail_misaligned(t, offset, size);
  if (offset + size > t.shared_bytes) fail_shared(t, offset, size);
  if (looks_for_races) note_access(t, offset, size, access, true);
  return reinterpret_cast<std::uint64_t>(t.shared) + offset;
}
/// *p = next(*p), at once; returns the old value.
template <class T, class Next>
T update(T* p, Next next) {
  T old;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  for (;;) {
    T value = next(old);
    if (__atomic_compare_exchange(p, &old, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return old;
  }
}

// ---- several threads; `site` is the number of the instruction ----

struct Votes {
  bool any, all;
};
Votes barrier(Thread& t, int site, bool mine);
/// The values of the 32 lanes, after all lanes of the mask have come.
const std::uint64_t* exchange(Thread& t, int site, std::uint32_t mask, std::uint64_t mine);
std::uint32_t ballot(Thread& t, int site, bool mine, std::uint32_t mask);
enum class Shuffle { up, down, bfly, idx };
std::uint32_t shuffle(Thread& t, int site, Shuffle mode, std::uint32_t value, std::uint32_t b,
                      std::uint32_t clamp, std::uint32_t mask, bool& in_range);
inline std::uint32_t flat(const Thread& t) {
  return t.tid[0] + t.ntid[0] * (t.tid[1] + t.ntid[1] * t.tid[2]);
}
inline std::uint32_t lane(const Thread& t) { return flat(t) % 32; }

// ---- integers ----

template <class T>
T shl(T a, std::uint32_t n) {
  return n >= 8 * sizeof(T) ? T(0) : T(a << n);
}
template <class T>
T shr(T a, std::uint32_t n) {
  if (n >= 8 * sizeof(T)) n = 8 * sizeof(T) - 1, a = std::is_signed_v<T> ? a : T(0);
  return T(a >> n);
}
template <class T>
T div(const Thread& t, T a, T b) {
  if (b == 0) fail(t, "division by zero");
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return T(-a);
  return T(a / b);
}
template <class T>
T rem(const Thread& t, T a, T b) {
  if (b == 0) fail(t, "remainder of a division by zero");
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return T(a % b);
}
template <class T>
T bfi(T a, T b, std::uint32_t from, std::uint32_t bits) {
  const T mask = shl<T>(T(~shl<T>(T(~T(0)), bits & 255)), from & 255);
  return T((b & ~mask) | (shl<T>(a, from & 255) & mask));
}
template <class T>
T bfe(T a, std::uint32_t from, std::uint32_t bits) {
  from &= 255, bits &= 255;
  const std::uint32_t width = 8 * sizeof(T);
  if (bits == 0 || (from >= width && !std::is_signed_v<T>)) return 0;
  const std::uint32_t end = std::min(from + bits, width);
  using U = std::make_unsigned_t<T>;
  if (from >= width) return shr<T>(a, width - 1);
  return shr<T>(T(U(a) << (width - end)), width - end + from);
}
template <class T>
T brev(T x) {
  T result = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i) result = T(result << 1 | (x >> i & 1));
  return result;
}
std::uint32_t prmt(std::uint32_t a, std::uint32_t b, std::uint32_t selector);
std::uint32_t bmsk(std::uint32_t from, std::uint32_t bits);
std::uint32_t lop3(std::uint32_t a, std::uint32_t b, std::uint32_t c, unsigned table);

// ---- floating-point numbers ----

float of_f16(std::uint16_t h);
std::uint16_t to_f16(double x);
inline float of_bf16(std::uint16_t h) { return B32{std::uint32_t(h) << 16}.f; }
std::uint16_t to_bf16(float x);
/// x is a whole number. Values out of range become the nearest one; NaN becomes 0, or 2^63.
template <class Integer, class T>
Integer to_integer(T x) {
  constexpr Integer low = std::numeric_limits<Integer>::min();
  constexpr Integer high = std::numeric_limits<Integer>::max();
  if (x != x) return sizeof(Integer) == 8 ? Integer(std::uint64_t{1} << 63) : Integer(0);
  if (x <= T(low)) return low;
  return x >= T(high) ? high : Integer(x);
}
template <class T>
T flushed(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(T(0), x) : x;
}
template <class T>
T saturated(T x) {
  return !(x > 0) ? T(0) : x > 1 ? T(1) : x;
}
template <class T, class Op>
T rounded(int mode, Op op) {
  const int before = std::fegetround();
  std::fesetround(mode);
  volatile T result = op();
  std::fesetround(before);
  return result;
}

}  // namespace rondo::ptx
