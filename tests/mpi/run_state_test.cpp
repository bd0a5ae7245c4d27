// A run's checkpoint over ranks that have weights of their own.

#include "train/run_state.h"

#include <gtest/gtest.h>

#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/mpi_main.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using test::world;

/// One folder for all ranks, removed by the first.
class SharedFolder {
 public:
  SharedFolder() : path_(fs::temp_directory_path() / concat("rondo-run-state-", getppid())) {
    clear();
  }
  ~SharedFolder() { clear(); }
  const fs::path& path() const { return path_; }

 private:
  void clear() {
    world()->barrier();
    if (world()->rank() == 0) fs::remove_all(path_);
    world()->barrier();
  }
  fs::path path_;
};

struct Averaged {
  nn::Linear model{2, 2};
  optim::SGD sgd{model.parameters(), {.lr = 0.1}};
  optim::StepLR schedule{sgd, {.step_size = 1}};
  train::RunState state{model, sgd, schedule, *world(), "net", {}, true};

  void set(double value) {
    NoGradGuard no_grad;
    model.weight.fill_(value + world()->rank());
  }
  double value() { return model.weight.select(0, 0).select(0, 0).item<double>() - world()->rank(); }
};

// Killed after ranks 1, 2, … have written their second file and before rank 0 has: all go on from
// the first, together.
TEST(RunState, AKillBetweenTwoSavesLeavesThemTogether) {
  SharedFolder folder;
  Averaged run;
  run.set(1);
  const io::Checkpoint::Position end{.epoch = 1, .step = 0, .global_step = 8};
  const io::Metadata own{{"loss_sum", 10.0 + world()->rank()}};
  run.state.save(folder.path(), end, {{"tested", std::int64_t{0}}}, own);
  const fs::path file = train::checkpoint_path(folder.path()), aside = file.string() + ".aside";
  if (world()->rank() == 0) fs::copy_file(file, aside);
  run.state.save(folder.path(), end, {{"tested", std::int64_t{1}}}, own);
  if (world()->rank() == 0) fs::rename(aside, file);
  world()->barrier();
  run.set(5);
  io::Checkpoint restored = run.state.restore(folder.path());
  EXPECT_EQ(std::get<std::int64_t>(restored.metadata.at("tested")), 0);
  EXPECT_EQ(std::get<double>(restored.metadata.at("loss_sum")), 10.0 + world()->rank());
  EXPECT_EQ(run.value(), 1);
}

// The last batch of an epoch and the epoch's end are one step, with an average between them: what
// belongs to the first must not be overwritten before rank 0 has written the second.
TEST(RunState, TheEndOfAnEpochIsNotItsLastBatch) {
  SharedFolder folder;
  Averaged run;
  run.set(1);
  run.state.save(folder.path(), {.epoch = 0, .step = 8, .global_step = 8}, {});
  std::vector<fs::path> first;
  for (const auto& entry : fs::directory_iterator(folder.path() / "ranks")) first.push_back(entry);
  EXPECT_EQ(std::ssize(first), world()->world_size() - 1);
  world()->barrier();
  run.set(2);
  run.state.save(folder.path(), {.epoch = 1, .step = 0, .global_step = 8}, {});
  for (const fs::path& file : first) EXPECT_FALSE(fs::exists(file)) << file;
  run.state.restore(folder.path());
  EXPECT_EQ(run.value(), 2);
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) { return rondo::test::mpi_main(argc, argv); }
