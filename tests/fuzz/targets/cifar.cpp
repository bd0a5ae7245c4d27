// CIFAR's records and class names: the same bytes are read as both.
#include "data/cifar.h"

#include <algorithm>

#include "fuzz/targets/fuzz.h"
#include "support/files.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& folder = *new test::TemporaryFolder;
  const std::string bytes = fuzz::text_of(data, size);
  const auto records = std::max<std::int64_t>(1, static_cast<std::int64_t>(size / 3073));
  test::write_file(folder / "test_batch.bin", size < 3073 ? std::string(3073, '\1') : bytes);
  test::write_file(folder / "batches.meta.txt",
                   size < 3073 ? bytes : "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
  return fuzz::hold_at_most(64 * size + 2 * fuzz::mib, [&] {
    data::load_cifar10(folder.path(), data::Split::test, {.records_per_file = records});
  });
}
