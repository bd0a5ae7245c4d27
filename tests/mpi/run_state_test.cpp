// Checkpoints of a run whose ranks have different weights.

#include "train/run_state.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/shared_folder.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using test::SharedFolder, test::world;

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

// The job is killed after ranks 1, 2, … have written their second file and before rank 0 has. All
// ranks resume from the first checkpoint together.
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
  const io::Checkpoint restored = run.state.restore(folder.path()).checkpoint;
  EXPECT_EQ(std::get<std::int64_t>(restored.metadata.at("tested")), 0);
  EXPECT_EQ(std::get<double>(restored.metadata.at("loss_sum")), 10.0 + world()->rank());
  EXPECT_EQ(run.value(), 1);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

// Whichever file fails, all ranks throw its error, and only the previous checkpoint exists.
TEST(RunState, ACheckpointThatCannotBeWrittenLeavesNoParts) {
  if (world()->world_size() == 1) GTEST_SKIP() << "one rank writes no parts";
  for (const bool is_first : {false, true}) {
    SharedFolder folder;
    Averaged run;
    run.set(1);
    run.state.save(folder.path(), {.epoch = 1, .step = 0, .global_step = 8}, {});
    const auto parts = names_in(folder.path() / "ranks").size();
    const fs::path file = is_first ? train::checkpoint_path(folder.path())
                                   : folder.path() / "ranks" / "step16.epoch2.rank1.safetensors";
    world()->barrier();
    if (world()->rank() == 0) {
      if (is_first) fs::rename(file, file.string() + ".aside");
      fs::create_directory(file);
    }
    world()->barrier();
    EXPECT_EQ(test::message_of<IoError>([&] {
                run.state.save(folder.path(), {.epoch = 2, .step = 0, .global_step = 16}, {});
              }),
              concat("cannot write ", file.string(), ": it is a directory"));
    world()->barrier();
    if (world()->rank() == 0) {
      fs::remove(file);
      if (is_first) fs::rename(file.string() + ".aside", file);
    }
    world()->barrier();
    EXPECT_EQ(names_in(folder.path() / "ranks").size(), parts);
    EXPECT_EQ(run.state.restore(folder.path()).checkpoint.position.epoch, 1);
  }
}

// The last batch of an epoch and the end of the epoch have the same step number, with an average
// between them. The files of the first must not be overwritten before rank 0 has written the
// second.
TEST(RunState, TheEndOfAnEpochIsNotItsLastBatch) {
  SharedFolder folder;
  Averaged run;
  run.state.keep = 1;
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

std::int64_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(RunState, TheNewestFewAreKeptAndTheBest) {
  SharedFolder folder;
  Averaged run;
  run.state.keep = 3;
  for (int step = 1; step <= 12; ++step) {
    run.set(step);
    run.state.save(folder.path(), {.global_step = step}, {}, {}, /*is_best=*/step == 5);
  }
  const int ranks = world()->world_size();
  EXPECT_EQ(files_in(folder.path() / "kept"), 3);
  EXPECT_TRUE(fs::exists(folder.path() / "kept/step10.epoch0.safetensors"));
  EXPECT_EQ(ranks > 1 ? files_in(folder.path() / "ranks") : 0, 3 * (ranks - 1));
  const auto best = io::load_checkpoint((folder.path() / "best.safetensors").string(), "net");
  EXPECT_EQ(best.position.global_step, 5);
  EXPECT_EQ(fs::hard_link_count(train::checkpoint_path(folder.path())), 2)
      << "the newest takes no memory twice";
  run.set(0);
  EXPECT_EQ(run.state.restore(folder.path()).path, train::checkpoint_path(folder.path()));
  EXPECT_EQ(run.value(), 12);
}

/// Flips a bit of the last tensor.
void damage(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-1, std::ios::end);
  const char byte = static_cast<char>(stream.peek() ^ 1);
  stream.seekp(-1, std::ios::end);
  stream.put(byte);
}

TEST(RunState, WhereTheNewestIsDamagedTheOneBeforeIsUsed) {
  const int last = world()->world_size() - 1;
  for (const bool own : {false, true}) {
    if (own && last == 0) continue;
    SharedFolder folder;
    Averaged run;
    for (int step = 1; step <= 2; ++step) {
      run.set(step);
      run.state.save(folder.path(), {.global_step = step}, {});
    }
    const fs::path newest =
        own ? folder.path() / concat("ranks/step2.epoch0.rank", last, ".safetensors")
            : train::checkpoint_path(folder.path());
    world()->barrier();
    if (world()->rank() == 0) damage(newest);
    world()->barrier();
    run.set(0);
    const auto restored = run.state.restore(folder.path());
    EXPECT_EQ(run.value(), 1);
    EXPECT_EQ(restored.checkpoint.position.global_step, 1);
    EXPECT_EQ(restored.path, folder.path() / "kept/step1.epoch0.safetensors");
    EXPECT_NE(restored.passed_over.find(newest.filename().string()), std::string::npos)
        << restored.passed_over;

    world()->barrier();
    if (world()->rank() == 0) damage(restored.path);
    world()->barrier();
    std::string said;
    try {
      run.state.restore(folder.path());
    } catch (const IoError& error) {
      said = error.what();
    }
    EXPECT_EQ(said, restored.passed_over) << "what is wrong with the newest";
    EXPECT_EQ(run.value(), 1);
    world()->barrier();
  }
}

// Checkpoints newer than the one that was used belong to an abandoned run. They must not replace
// later checkpoints or ever be used.
TEST(RunState, AfterAFallbackTheDamagedOneGoes) {
  SharedFolder folder;
  Averaged run;
  const auto save = [&](int step) {
    run.set(step);
    run.state.save(folder.path(), {.global_step = step}, {});
  };
  save(100);
  save(200);
  world()->barrier();
  if (world()->rank() == 0) damage(train::checkpoint_path(folder.path()));
  world()->barrier();
  EXPECT_EQ(run.state.restore(folder.path()).checkpoint.position.global_step, 100);
  save(150);
  save(160);
  EXPECT_FALSE(fs::exists(folder.path() / "kept/step200.epoch0.safetensors"));
  world()->barrier();
  if (world()->rank() == 0) damage(train::checkpoint_path(folder.path()));
  world()->barrier();
  EXPECT_EQ(run.state.restore(folder.path()).checkpoint.position.global_step, 150);
  EXPECT_EQ(run.value(), 150);
  world()->barrier();
  run.state.keep = 1;
  save(170);
  EXPECT_EQ(files_in(folder.path() / "kept"), 0);
}

TEST(RunState, WhatIsLeftOfARunIsMovedAside) {
  SharedFolder folder;
  Averaged run;
  for (int step = 1; step <= 2; ++step)
    run.state.save(folder.path(), {.global_step = step}, {}, {}, true);
  world()->barrier();
  if (world()->rank() == 0) {
    fs::remove(train::checkpoint_path(folder.path()));
    EXPECT_EQ(train::move_run_aside(folder.path()), folder.path() / "previous-1");
    EXPECT_FALSE(fs::exists(folder.path() / "kept"));
    EXPECT_FALSE(fs::exists(folder.path() / "best.safetensors"));
    EXPECT_EQ(files_in(folder.path() / "previous-1/kept"), 2);
    EXPECT_EQ(train::move_run_aside(folder.path()), fs::path());
  }
  world()->barrier();
}

}  // namespace
}  // namespace rondo
