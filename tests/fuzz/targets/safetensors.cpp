// safetensors files, in which only the header can be invalid.
#include "io/safetensors.h"

#include "fuzz/targets/fuzz.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::hold_at_most(32 * size + fuzz::mib,
                            [&] { io::parse_safetensors(fuzz::bytes_of(data, size), "fuzz"); });
}
