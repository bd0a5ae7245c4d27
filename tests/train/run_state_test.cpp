// A run's checkpoint while another thread writes it, and the generators of ranks.

#include "train/run_state.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "autograd/record.h"
#include "dist/launch/init.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/support.h"
#include "tensor/random.h"

namespace rondo::train {
namespace {

namespace fs = std::filesystem;

/// A model of 16 MB, so that writing it takes longer than changing it.
struct Fixture {
  nn::Linear model{2048, 2048};
  optim::SGD sgd{model.parameters(), {.lr = 0.1, .momentum = 0.9}};
  optim::LambdaLR schedule{sgd, [](std::int64_t) { return 1.0; }};
  std::shared_ptr<dist::Communicator> comm = dist::init({.backend = "self"});
  RunState state{model, sgd, schedule, *comm, "linear", {}, false, 1, {}, true};
  test::TemporaryFolder folder;

  void save(std::int64_t step) {
    state.save(folder.path(), {.step = step, .global_step = step}, {});
  }
  void set_weights(double value) {
    no_grad([&] { return model.weight.fill_(value); });
  }
  double first_weight_in_file() const {
    const auto checkpoint = io::load_checkpoint(folder / "checkpoint.safetensors");
    const Tensor w = checkpoint.model_state.at(0).tensor;
    EXPECT_EQ(w.to_vector(),
              std::vector<float>(static_cast<std::size_t>(w.numel()), w.to_vector().front()));
    return w.to_vector().front();
  }
};

TEST(RunState, WhatIsWrittenInTheBackgroundIsTheStateOfTheSave) {
  Fixture run;
  for (int i = 1; i <= 5; ++i) {
    run.set_weights(i);
    run.save(i);
    run.set_weights(-i);  // the run continues
    run.state.finish();
    EXPECT_EQ(run.first_weight_in_file(), i);
  }
}

TEST(RunState, AfterAWriteThatFailedTheNewestStateIsWritten) {
  Fixture run;
  const auto fail = [] { throw IoError("disk full"); };
  run.state.writing.start(fail);
  run.set_weights(2);
  run.save(2);  // there is space again
  EXPECT_EQ(run.first_weight_in_file(), 2);

  run.state.writing.start(fail);
  const test::SmallFiles disk(100);
  EXPECT_ERROR(run.save(3), IoError, "checkpoint.safetensors");
}

TEST(MoveRunAside, ALinkInThePlaceOfItsFolderIsNotFollowed) {
  const test::TemporaryFolder folder, victim;
  test::write_file(victim / "kept/mine", "untouched");
  test::write_file(folder / "checkpoint.safetensors", "a run");
  fs::create_directory_symlink(victim.path(), folder / "previous.tmp");
  EXPECT_EQ(move_run_aside(folder.path()), folder.path() / "previous-1");
  EXPECT_EQ(test::read_file(folder / "previous-1/checkpoint.safetensors"), "a run");
  EXPECT_FALSE(fs::is_symlink(folder / "previous-1"));
  EXPECT_EQ(test::read_file(victim / "kept/mine"), "untouched");
  EXPECT_EQ(victim.count(), 1);
}

TEST(RunState, TheGeneratorGoesOnWhereItStood) {
  Fixture run;
  manual_seed(5);
  default_generator().next();
  const Generator::State before = default_generator().state();
  run.save(1);
  run.state.finish();
  manual_seed(77);
  run.state.restore(run.folder.path());
  EXPECT_EQ(default_generator().state(), before);
}

}  // namespace
}  // namespace rondo::train
