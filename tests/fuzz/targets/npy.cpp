// NumPy's arrays, in which only the header can be invalid.
#include "io/npy.h"

#include "fuzz/targets/fuzz.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::hold_at_most(16 * size + fuzz::mib,
                            [&] { io::parse_npy(fuzz::bytes_of(data, size), "fuzz"); });
}
