// IDX files, plain and gzip.
#include "data/mnist.h"
#include "fuzz/targets/fuzz.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file(data, size);
  const std::size_t unpacked = size > 2 && data[0] == 0x1f && data[1] == 0x8b ? 1032 * size : size;
  return fuzz::hold_at_most(4 * unpacked + 4 * fuzz::mib, [&] { data::read_idx(file.path()); });
}
