// Gives mutilated files of torch.save to their reader. Whatever the bytes, the result is tensors or
// an IoError.

#include "extras/torch_files/torch_pickle.h"

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <utility>

#include "extras/torch_files/torch_training.h"
#include "io/atomic_file.h"
#include "io/zip.h"
#include "nn/linear.h"
#include "optim/adam.h"
#include "optim/one_cycle.h"
#include "optim/sgd.h"
#include "support/files.h"
#include "support/golden.h"
#include "support/mutilate.h"

namespace rondo {
namespace {

TEST(Fuzz, TorchFiles) {
  const std::vector<std::string> words = {
      "\x80\x02",      "}q",    ")R", "(", "tQ", "u.", "PK\x01\x02", "PK\x03\x04", "data.pkl",
      "cos\nsystem\n", ")\x81", "}b"};
  long refused = 0;
  const long iterations = test::fuzz_iterations(3000);
  for (const char* form : {"zip", "legacy", "checkpoint_legacy"}) {
    const std::string whole = test::golden_bytes("torch_files_hex.txt", form);
    test::Dice dice;
    for (long i = 0; i < iterations; ++i) {
      const std::string bytes = test::mutilate(whole, dice, words);
      try {
        const io::TorchFile file = io::parse_torch(std::as_bytes(std::span(bytes)), "fuzz");
        for (const auto& entry : file.tensors) EXPECT_GE(entry.tensor.contiguous().numel(), 0);
      } catch (const IoError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, iterations);  // changes of elements are not refused
}

/// Calls `load` for valid archives around invalid pickles. In the test above the zip's checksums
/// refuse such files.
void load_mutilated_pickles(const std::string& whole, long iterations,
                            const std::function<void(const std::string& path)>& load) {
  std::vector<std::pair<std::string, std::string>> parts;
  io::ZipReader reader(std::as_bytes(std::span(whole)), "golden");
  for (std::string name; reader.next(name);) parts.emplace_back(name, reader.read_text(1 << 20));
  const test::TemporaryFolder folder;
  const std::string path = (folder / "fuzz.pth").string();
  const std::vector<std::string> words = {"\x80\x02", "}q",       ")R",    "(",  "tQ",    "u.",
                                          "K\x01",    "\x8a\x08", ")\x81", "}b", "h\x01", "s"};
  test::Dice dice;
  for (long i = iterations; i > 0; --i) {
    {
      io::AtomicFile out(path);
      io::ZipWriter zip(out);
      for (const auto& [name, bytes] : parts) {
        const std::string now =
            name.ends_with("data.pkl") ? test::mutilate(bytes, dice, words) : bytes;
        zip.add(name, now.data(), now.size());
      }
      zip.finish();
      out.commit();
    }
    load(path);
  }
}

TEST(Fuzz, PicklesInZip) {
  load_mutilated_pickles(test::golden_bytes("torch_files_hex.txt", "zip"),
                         test::fuzz_iterations(1000), [](const std::string& path) {
                           try {
                             for (const auto& entry : io::load_torch(path).tensors)
                               EXPECT_GE(entry.tensor.contiguous().numel(), 0);
                           } catch (const IoError&) {
                           }
                         });
}

// States of optimizers and schedules: the errors of load_state_dict, too.
TEST(Fuzz, TrainingInZip) {
  nn::Linear net(3, 2);
  const auto load = [&](const char* golden, optim::Optimizer& optimizer,
                        optim::LRSchedule& schedule) {
    load_mutilated_pickles(test::golden_bytes("torch_training_hex.txt", golden),
                           test::fuzz_iterations(60), [&](const std::string& path) {
                             try {
                               io::load_torch_training(path, {&net, &optimizer, &schedule});
                             } catch (const Error&) {
                             }
                           });
  };
  optim::Adam adam(net.parameters());
  optim::MultiStepLR steps(adam, {.milestones = {3}});
  load("adam_multi_step", adam, steps);
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::OneCycleLR cycle(sgd, {.max_lr = 1, .total_steps = 9});
  load("sgd_one_cycle", sgd, cycle);
}

}  // namespace
}  // namespace rondo
