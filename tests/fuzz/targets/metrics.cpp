// Metrics files of an earlier run: lines of JSON, and tables.
#include "train/metrics.h"

#include "fuzz/targets/fuzz.h"
#include "support/files.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& folder = *new test::TemporaryFolder;
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) {
    test::write_file(folder / name, fuzz::text_of(data, size));
    fuzz::hold_at_most(256 * size + fuzz::mib, [&] { train::MetricsFile::check(folder / name); });
  }
  return 0;
}
