// The index of a safetensors file in several parts.
#include "io/safetensors_index.h"

#include "fuzz/targets/fuzz.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::hold_at_most(128 * size + fuzz::mib,
                            [&] { io::detail::parse_index(fuzz::text_of(data, size), "fuzz"); });
}
