// Files of torch.save: zip archives and sequences of pickles.
#include <algorithm>

#include "extras/torch_files/torch_pickle.h"
#include "fuzz/targets/fuzz.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::size_t pickle = size, storages = size;
  if (size > 2 && data[0] == 'P' && data[1] == 'K') {  // compressed data may expand
    pickle = std::min(1032 * size, 32 * size + fuzz::mib);
    storages = 1100 * size;
  }
  return fuzz::hold_at_most(storages + 256 * pickle + 4 * fuzz::mib, [&] {
    for (const auto& entry : io::parse_torch(fuzz::bytes_of(data, size), "fuzz").tensors)
      static_cast<void>(entry.tensor.contiguous());
  });
}
