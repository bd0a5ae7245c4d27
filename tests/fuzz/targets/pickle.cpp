// Pickles alone, without the checks of the file around them.
#include "extras/torch_files/pickle.h"

#include "fuzz/targets/fuzz.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::hold_at_most(256 * size + fuzz::mib,
                            [&] { io::parse_pickle(fuzz::bytes_of(data, size), "fuzz"); });
}
