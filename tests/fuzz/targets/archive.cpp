// Tar archives, plain and compressed: nothing may be written outside the folder they are unpacked
// to.
#include <filesystem>

#include "data/download.h"
#include "fuzz/targets/fuzz.h"
#include "support/files.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& folder = *new test::TemporaryFolder;
  const fuzz::MemoryFile file(data, size);
  fuzz::hold_at_most(4 * size + 16 * fuzz::mib,
                     [&] { data::unpack(file.path(), folder / "into"); });
  std::filesystem::remove_all(folder / "into");
  if (folder.count() != 0) std::abort();
  return 0;
}
