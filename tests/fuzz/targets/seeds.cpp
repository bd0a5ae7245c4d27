// seeds FOLDER: the fuzzers' seeds, one folder per target: valid files, from the goldens that
// PyTorch and PIL made and from rondo's own writers.
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>

#include "data/tar.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "io/zip.h"
#include "support/files.h"
#include "support/golden.h"
#include "tensor/creation.h"

using namespace rondo;
namespace fs = std::filesystem;

namespace {

std::string gzipped(const fs::path& scratch, const std::string& bytes) {
  gzFile out = gzopen(scratch.c_str(), "wb");
  gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(out);
  return test::read_file(scratch);
}

void goldens(const fs::path& to) {
  for (const auto& [name, hex] : test::golden_texts("torch_files_hex.txt")) {
    const std::string bytes = test::golden_bytes("torch_files_hex.txt", name);
    test::write_file(to / "torch" / name, bytes);
    if (!bytes.starts_with("PK")) continue;
    io::ZipReader zip(std::as_bytes(std::span(bytes)), name);
    for (std::string part; zip.next(part);) {
      if (!part.ends_with("data.pkl")) continue;
      const std::string pickle = zip.read_text(1 << 20);
      test::write_file(to / "pickle" / name, pickle);
      test::write_file(to / "torch_object" / name, pickle);
    }
  }
  for (const auto& [name, hex] : test::golden_texts("images_hex.txt")) {
    const std::string bytes = test::golden_bytes("images_hex.txt", name);
    test::write_file(to / (bytes[0] == '\xff' ? "jpeg" : "png") / name, bytes);
  }
  test::write_file(to / "safetensors" / "golden",
                   test::golden_bytes("safetensors_hex.txt", "file"));
  test::write_file(to / "safetensors" / "foreign_dtypes",
                   test::golden_bytes("safetensors_hex.txt", "foreign_dtypes"));
  for (const char* name : {"f4", "c16.big", "u4.fortran", "three", "version2"})
    test::write_file(to / "npy" / name, test::golden_bytes("numpy_hex.txt", name));
  std::ifstream tokenizers(RONDO_GOLDEN_DIR "/tokenizers.txt");
  for (std::string line; std::getline(tokenizers, line);)
    if (const auto at = line.find(" json "); at != std::string::npos)
      test::write_file(to / "tokenizer" / line.substr(0, at), line.substr(at + 6));
  test::write_file(to / "safetensors_index" / "two",
                   R"({"metadata": {"total_size": 24}, "weight_map": {"w": "a", "v": "b"}})");
}

void own_files(const fs::path& to) {
  const test::TemporaryFolder scratch;
  io::Checkpoint c;
  c.model = "mlp";
  c.config = {{"width", std::int64_t{8}}, {"name", std::string("x")}};
  c.metadata = {{"accuracy", 0.5}, {"loss", std::numeric_limits<double>::infinity()}};
  c.generators["default"] = {.seed = 1, .next_stream = 2};
  c.optimizer = optim::OptimizerState{.type = "SGD", .groups = {{{{"lr", 1}}, {0}}}, .tensors = {}};
  c.schedule = optim::ScheduleState{.type = "StepLR", .values = {{"gamma", {0.1}}}, .children = {}};
  c.schedule->children.push_back(*c.schedule);
  io::save_checkpoint(scratch / "c", c);
  test::write_file(to / "safetensors" / "checkpoint", test::read_file(scratch / "c"));
  test::write_file(to / "checkpoint" / "all",
                   io::load_safetensors_metadata(scratch / "c").at("rondo.checkpoint"));
  io::save_safetensors(
      scratch / "s",
      {{"w", ones({2, 3})}, {"b", zeros({3}, {.dtype = boolean})}, {"e", zeros({0, 5})}},
      {{"key", "value"}});
  test::write_file(to / "safetensors" / "three", test::read_file(scratch / "s"));

  const std::string idx =
      std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x03\0\0\0\x02", 16) + std::string(12, 'p');
  test::write_file(to / "idx" / "plain", idx);
  test::write_file(to / "idx" / "gzip", gzipped(scratch / "g", idx));
  test::write_file(to / "cifar" / "records", std::string(2 * 3073, '\3'));
  test::write_file(to / "cifar" / "names", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
  test::write_tar_gz(scratch / "t.tar.gz",
                     {{"set/", "", AE_IFDIR}, {"set/one", "1"}, {"set/deep/two", "22"}});
  test::write_file(to / "archive" / "gzip", test::read_file(scratch / "t.tar.gz"));
  std::string tar(1 << 16, '\0');
  gzFile in = gzopen((scratch / "t.tar.gz").c_str(), "rb");
  tar.resize(static_cast<std::size_t>(gzread(in, tar.data(), 1 << 16)));
  gzclose(in);
  test::write_file(to / "archive" / "plain", tar);
  test::write_file(to / "metrics" / "json", "{\"epoch\": 1, \"lr\": 0.12, \"step\": 390}\n");
  test::write_file(to / "metrics" / "table", "epoch,step,lr\n1,390,0.12\n2,780,0.1\n");
  test::write_file(to / "key_rules" / "module", "module.layer1_0.bn1.gamma");
  test::write_file(to / "key_rules" / "fc", "fc.num_batches_tracked");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  goldens(argv[1]);
  own_files(argv[1]);
  return 0;
}
