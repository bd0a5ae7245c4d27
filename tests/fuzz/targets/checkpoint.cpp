// The descriptions of checkpoints: JSON in a file with a correct checksum.
#include "io/checkpoint.h"

#include "fuzz/targets/fuzz.h"
#include "io/safetensors.h"
#include "support/files.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& folder = *new test::TemporaryFolder;
  const std::string path = (folder / "checkpoint").string();
  try {
    io::save_safetensors(path, {}, {{"rondo.checkpoint", fuzz::text_of(data, size)}});
  } catch (const IoError&) {  // not UTF-8
    return -1;
  }
  return fuzz::hold_at_most(256 * size + fuzz::mib, [&] { io::load_checkpoint(path); });
}
