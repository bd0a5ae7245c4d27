// All ranks write one file at the same time. It must then be the complete file of one of them.

#include "extras/torch_files/torch_pickle.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <string>

#include "io/safetensors.h"
#include "io/weights.h"
#include "support/shared_folder.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using test::SharedFolder, test::world;

/// In any order, the rank that finishes last wins, and readers see only complete files.
void write_at_once(const std::string& name,
                   const std::function<void(const std::string&, const nn::StateDict&)>& save) {
  const SharedFolder folder;
  if (world()->rank() == 0) fs::create_directories(folder.path());
  world()->barrier();
  const std::string path = (folder.path() / name).string();
  // So many bytes that the ranks' writes overlap, and a different size on each rank.
  const std::int64_t rows = 100 + world()->rank();
  const nn::StateDict mine = {{"rank", full({1}, world()->rank())},
                              {"rows", full({rows, 1000}, world()->rank())}};
  for (int round = 0; round < 5; ++round) {
    world()->barrier();
    save(path, mine);
    const nn::StateDict meanwhile = io::load_weights(path);  // from a rank at the same step
    world()->barrier();
    for (const nn::StateDict& read : {meanwhile, io::load_weights(path)}) {
      ASSERT_EQ(read.size(), 2u);
      const double writer = read[0].tensor.item();
      EXPECT_EQ(read[1].tensor.size(0), 100 + static_cast<std::int64_t>(writer));
      EXPECT_EQ(read[1].tensor.to_vector<double>(),
                std::vector<double>(static_cast<std::size_t>(read[1].tensor.numel()), writer));
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "a file is left over";
  }
}

TEST(SavesAtOnce, ATorchFileIsOneRanks) { write_at_once("weights.pth", io::save_torch); }

TEST(SavesAtOnce, ASafetensorsFileIsOneRanks) {
  write_at_once("weights.safetensors", [](const std::string& path, const nn::StateDict& tensors) {
    io::save_safetensors(path, tensors);
  });
}

}  // namespace
}  // namespace rondo
