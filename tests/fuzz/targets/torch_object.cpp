// The pickle of a zip file of torch.save, in a valid archive: in a damaged archive the checksums
// would stop the fuzzer.
#include "extras/torch_files/torch_pickle.h"
#include "fuzz/targets/fuzz.h"
#include "io/atomic_file.h"
#include "io/zip.h"
#include "support/files.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& folder = *new test::TemporaryFolder;
  const std::string path = (folder / "file.pth").string();
  {
    static const std::string zeros(64, '\0');
    io::AtomicFile out(path);
    io::ZipWriter zip(out);
    zip.add("a/data.pkl", data, size);
    for (std::size_t bytes : {4, 8, 16, 24, 64})
      zip.add(concat("a/data/", bytes), zeros.data(), bytes);
    zip.finish();
    out.commit();
  }
  return fuzz::hold_at_most(256 * size + 4 * fuzz::mib, [&] {
    for (const auto& entry : io::load_torch(path).tensors)
      static_cast<void>(entry.tensor.contiguous());
  });
}
