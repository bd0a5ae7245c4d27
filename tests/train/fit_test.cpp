// The training loop on a small data set: what it counts, saves, refuses, and repeats.

#include "train/fit.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

#include "dist/launch/init.h"
#include "io/hash.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/linear.h"
#include "optim/lr_schedule.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/ranks.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "train/background_write.h"
#include "train/metrics.h"
#include "train/progress_bar.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

/// Two clouds of points, one per class.
std::shared_ptr<data::TensorDataset> two_clouds(std::int64_t n, float offset = 2) {
  Generator generator(7);
  Tensor x = randn({n, 4}, {}, generator), y = Tensor::empty({n}, {.dtype = i64});
  for (std::int64_t i = 0; i < n; ++i) {
    y.data_ptr<std::int64_t>()[i] = i % 2;
    x.data_ptr<float>()[4 * i] += i % 2 ? offset : -offset;
  }
  return std::make_shared<data::TensorDataset>(x, y);
}

class Fit : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() /
        concat("rondo_fit_", ::testing::UnitTest::GetInstance()->random_seed(), "_", getpid());
    fs::remove_all(folder_);
  }
  void TearDown() override {
    train::finish_background_writes();
    fs::remove_all(folder_);
  }

  struct Outcome {
    train::FitResult result;
    std::string hash;
  };
  /// Trains a small net from seed 1 on 50 points in batches of 8 (the last one has 2).
  Outcome train(train::FitOptions options, std::shared_ptr<data::Dataset> set = two_clouds(50),
                std::shared_ptr<data::Dataset> test = two_clouds(31),
                std::shared_ptr<dist::Communicator> comm = nullptr, double lr = 0.1,
                std::int64_t t_max = 100, double momentum = 0.9) {
    manual_seed(1);
    nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
    optim::SGD sgd(net.parameters(), {.lr = lr, .momentum = momentum});
    optim::CosineAnnealingLR schedule(sgd, {.t_max = t_max});
    data::DataLoader loader(set, std::make_shared<data::RandomSampler>(set->size(), 3),
                            {.batch_size = 8});
    auto result = train::fit(net, sgd, schedule,
                             {.train = loader,
                              .train_images = set->size(),
                              .batch_size = 8,
                              .test = test,
                              .test_transform = {}},
                             comm != nullptr ? comm : dist::init({.backend = "self"}), options);
    return {result, io::param_hash(net.state_dict())};
  }
  fs::path folder_;
};

TEST_F(Fit, LearnsAndCountsEachTestSampleOnce) {
  Outcome outcome = train({.epochs = 5});
  EXPECT_EQ(outcome.result.test.total, 31);
  EXPECT_GE(outcome.result.test.correct, 29);
  EXPECT_EQ(outcome.result.epochs, 5);
  EXPECT_GE(outcome.result.best_test_accuracy, outcome.result.test.accuracy());
  EXPECT_TRUE(outcome.result.checkpoint.empty());
}

TEST_F(Fit, ResumesFromTheMiddleOfAnEpochToTheSameBits) {
  std::string straight = train({.epochs = 4, .checkpoint_dir = folder_ / "straight"}).hash;
  for (std::int64_t every : {1, 3, 7}) {
    // A run that dies when it reads batch 10 leaves the checkpoint before that batch.
    struct Dying : data::TensorDataset {
      using TensorDataset::TensorDataset;
      mutable std::atomic<int> batches{0};
      data::Batch get_batch(std::span<const std::int64_t> indices) const override {
        require(batches++ < 10, "the power went out");
        return TensorDataset::get_batch(indices);
      }
    };
    auto whole = two_clouds(50);
    auto dying = std::make_shared<Dying>(whole->inputs(), whole->targets());
    train::FitOptions options{.epochs = 4,
                              .checkpoint_dir = folder_ / "stop\nped",  // any name
                              .checkpoint_every = every,
                              .async_checkpoints = every != 3};
    EXPECT_THROW(train(options, dying), Error);
    options.resume = true;
    Outcome resumed = train(options);
    EXPECT_EQ(resumed.hash, straight) << every;
    EXPECT_EQ(resumed.result.epochs, 4);
    // Resumed at the end, it only evaluates.
    Outcome again = train(options);
    EXPECT_EQ(again.hash, straight);
    EXPECT_EQ(again.result.test.correct, resumed.result.test.correct);
    fs::remove_all(folder_ / "stop\nped");
  }
}

TEST_F(Fit, TellsOfEachStepAndProfilesSome) {
  // 7 batches of 50 points in an epoch.
  Outcome outcome = train({.epochs = 3,
                           .checkpoint_dir = folder_ / "profiled",
                           .profile_steps = 4,
                           .profile = folder_ / "profile.json"});
  const train::FitResult& result = outcome.result;
  EXPECT_EQ(result.steps.first, 1);
  ASSERT_EQ(result.steps.loss.size(), 21U);
  ASSERT_EQ(result.steps.lr.size(), 21U);
  EXPECT_EQ(result.steps.lr[0], 0.1);
  for (std::size_t i = 0; i < 21; ++i)  // the cosine's formula
    EXPECT_NEAR(result.steps.lr[i], 0.05 * (1 + std::cos(M_PI * static_cast<double>(i) / 100)),
                1e-9);
  double last = 0;
  for (std::size_t i = 14; i < 21; ++i) last += result.steps.loss[i] / 7;
  EXPECT_NEAR(last, result.final_loss, 1e-12);
  EXPECT_EQ(result.overlap.steps, 0);  // there were no other ranks
  ASSERT_NE(result.profile, nullptr);
  EXPECT_EQ(result.profile->steps(), 4);
  std::int64_t linear = 0;
  for (const train::KeyAverage& row : result.profile->key_averages())
    if (row.name == "linear") linear = row.calls;
  EXPECT_EQ(linear, 4 * 2);
  for (const ProfileEvent& event : result.profile->threads()[0].events) {
    EXPECT_GT(event.live_bytes, 0) << event.name;
    if (event.name == "linear" && event.kind == EventKind::op) {
      EXPECT_NE(event.shapes, "");
    }
  }
  EXPECT_TRUE(fs::exists(folder_ / "profile.json"));
  EXPECT_EQ(outcome.hash, train({.epochs = 3}).hash);  // a profiled run has the same result
  EXPECT_EQ(train({.epochs = 3}).result.profile, nullptr);
  EXPECT_ERROR(train({.epochs = 3, .profile_steps = -1}), Error, "profile_steps is -1");
  // A resumed run starts at its own step number.
  train::FitOptions more{.epochs = 4, .checkpoint_dir = folder_ / "profiled", .resume = true};
  EXPECT_EQ(train(more).result.steps.first, 22);
}

TEST_F(Fit, ACheckpointThatCannotBeWrittenEndsTheRun) {
  for (const bool async : {false, true}) {
    const fs::path folder = folder_ / (async ? "async" : "at_once");
    const test::SmallFiles disk(512);
    EXPECT_ERROR(train({.epochs = 2, .checkpoint_dir = folder, .async_checkpoints = async}),
                 IoError, "checkpoint.safetensors");
  }
}

TEST_F(Fit, AnEpochIsKeptWhenItsEvaluationIsCutShort) {
  std::string straight = train({.epochs = 3, .checkpoint_dir = folder_ / "straight"}).hash;
  struct Untestable : data::TensorDataset {
    using TensorDataset::TensorDataset;
    data::Batch get_batch(std::span<const std::int64_t>) const override {
      throw Error("the power went out");
    }
  };
  auto test = two_clouds(31);
  train::FitOptions options{.epochs = 3, .checkpoint_dir = folder_ / "stopped"};
  EXPECT_THROW(
      train(options, two_clouds(50), std::make_shared<Untestable>(test->inputs(), test->targets())),
      Error);
  options.resume = true;
  Outcome resumed = train(options);
  EXPECT_EQ(resumed.hash, straight);
  std::ifstream a(folder_ / "straight/metrics.jsonl"), b(folder_ / "stopped/metrics.jsonl");
  int lines = 0;
  for (std::string first, second; std::getline(a, first); ++lines) {
    ASSERT_TRUE(std::getline(b, second));  // the first epoch was also evaluated in the end
    auto accuracy = [](const std::string& line) { return line.substr(line.find("test_acc")); };
    EXPECT_EQ(accuracy(first), accuracy(second));
  }
  EXPECT_EQ(lines, 3);
}

TEST_F(Fit, ARunThatBeginsAnewKeepsThePreviousOne) {
  train::FitOptions options{.epochs = 1, .checkpoint_dir = folder_};
  std::string first = train(options).hash;
  options.epochs = 2;
  EXPECT_NE(train(options).hash, first);
  options.epochs = 1;
  options.checkpoint_dir = folder_ / "previous-1";
  options.resume = true;
  EXPECT_EQ(train(options).hash, first);
  EXPECT_TRUE(fs::exists(folder_ / "previous-1/metrics.jsonl"));
}

TEST_F(Fit, FolderNamesAreEscaped) {
  std::ostringstream out;
  train::FitOptions options{
      .epochs = 1, .checkpoint_dir = folder_ / "a\x1b[31m", .csv = folder_ / "b\x1b", .out = &out};
  train(options);
  train(options);
  options.epochs = 2;
  options.resume = true;
  train(options);
  EXPECT_EQ(out.str().find('\x1b'), std::string::npos) << out.str();
  for (const char* said : {"the run that was in ", "the table that was in ", "resuming from "})
    EXPECT_NE(out.str().find(said), std::string::npos) << said << out.str();
  EXPECT_NE(out.str().find("a\\x1b[31m"), std::string::npos) << out.str();
}

TEST_F(Fit, EmptyDataIsRefused) {
  EXPECT_THROW(train({.epochs = 1}, two_clouds(50), two_clouds(0)), Error);
  EXPECT_THROW(train({.epochs = 1}, two_clouds(0)), Error);
}

TEST(Evaluate, PutsEachModuleBackInItsOwnMode) {
  nn::Sequential net(nn::Linear(4, 8), nn::Sequential(nn::ReLU(), nn::Linear(8, 2)));
  nn::Module& frozen = *net.named_modules()[2].second;
  frozen.eval();
  train::evaluate(net, two_clouds(9), {}, *dist::init({.backend = "self"}));
  EXPECT_TRUE(net.is_training());
  EXPECT_FALSE(frozen.is_training());
}

TEST_F(Fit, MetricsOfSomethingElseAreNotOverwritten) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "metrics.jsonl") << R"({"epoch": "first"})"
                                           << "\n";
  EXPECT_THROW(train({.epochs = 1, .checkpoint_dir = folder_}), IoError);
  std::ifstream file(folder_ / "metrics.jsonl");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, R"({"epoch": "first"})");
}

TEST_F(Fit, MetricsAreNotWrittenThroughAPlantedLink) {
  fs::create_directories(folder_);
  const fs::path victim = folder_.string() + ".victim";
  std::ofstream(victim) << "precious\n";
  fs::create_symlink(victim, folder_ / "metrics.jsonl");
  EXPECT_ERROR(train({.epochs = 1, .checkpoint_dir = folder_}), IoError,
               "metrics.jsonl: cannot be written: it is a symbolic link; remove it");
  std::string line;
  std::ifstream file(victim);
  std::getline(file, line);
  EXPECT_EQ(line, "precious");
  fs::remove(victim);
}

TEST_F(Fit, MetricsHaveOneLineAnEpochAlsoAfterAResume) {
  train::FitOptions options{
      .epochs = 2, .checkpoint_dir = folder_, .csv = folder_ / "logs/run.csv"};
  train(options);
  options.epochs = 3;
  options.resume = true;
  train(options);
  std::ifstream table(options.csv);
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(table), {}, '\n'), 1 + 3);
  std::ifstream file(folder_ / "metrics.jsonl");
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    EXPECT_NE(line.find("\"epoch\":" + std::to_string(lines + 1)), std::string::npos) << line;
  }
  EXPECT_EQ(lines, 3);
}

TEST_F(Fit, ANonFiniteLossStopsTheRun) {
  auto broken = two_clouds(50);
  broken->inputs().data_ptr<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(train({.epochs = 1, .checkpoint_dir = folder_}, broken), Error);
  EXPECT_FALSE(fs::exists(folder_ / "checkpoint.safetensors"));
  EXPECT_THROW(train({.epochs = 1, .sync = train::Sync::average}, broken), Error);
}

TEST_F(Fit, OtherSettingsAreRefused) {
  train({.epochs = 1, .checkpoint_dir = folder_, .model_name = "net", .config = {{"--lr", 0.1}}});
  train::FitOptions other{.epochs = 2,
                          .checkpoint_dir = folder_,
                          .resume = true,
                          .model_name = "net",
                          .config = {{"--lr", 0.2}}};
  try {
    train(other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("belongs to a run with --lr 0.1, this one has --lr 0.2"),
        std::string::npos)
        << error.what();
  }
  other.config = {{"--lr", 0.1}};
  other.model_name = "mlp";
  EXPECT_THROW(train(other), IoError);
  EXPECT_THROW(train({.epochs = 0}), Error);
  EXPECT_THROW(train({.epochs = 1, .resume = true}), Error);
}

// For example a link to another disk. It is followed, and the kept checkpoints are files with the
// old contents.
TEST_F(Fit, ACheckpointBehindASymbolicLinkHasAHistory) {
  fs::create_directories(folder_ / "run");
  fs::create_directories(folder_ / "disk");
  fs::create_symlink("../disk/newest", folder_ / "run" / "checkpoint.safetensors");
  train({.epochs = 3, .checkpoint_dir = folder_ / "run", .keep_checkpoints = 3});
  std::set<std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "run")) {
    if (entry.path().extension() != ".safetensors") continue;
    EXPECT_EQ(entry.is_symlink(), entry.path() == folder_ / "run" / "checkpoint.safetensors");
    std::ifstream file(entry.path(), std::ios::binary);
    contents.insert(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  EXPECT_EQ(contents.size(), 3u);  // of the three epochs, one of which is the best too
}

// A schedule is restored with its length, so a longer run would continue with the rates of the
// shorter one.
TEST_F(Fit, ARunIsNotResumedWithAScheduleOfAnotherLength) {
  const train::FitOptions options{.epochs = 1, .checkpoint_dir = folder_};
  train(options);
  train::FitOptions more = options;
  more.epochs = 2;
  more.resume = true;
  const auto set = two_clouds(50), test = two_clouds(31);
  EXPECT_ERROR(train(more, set, test, nullptr, 0.1, 200), Error,
               "belongs to a run whose CosineAnnealingLR has t_max 100, this one has 200; resume "
               "with the same number of epochs");
  EXPECT_EQ(train(more, set, test).result.epochs, 2);
}

/// Each rank counts its share of the test set, and all count with the statistics of rank 0.
TEST_F(Fit, RanksEvaluateWithTheSameRunningStatistics) {
  test::on_ranks(3, [](std::shared_ptr<dist::Communicator> comm) {
    manual_seed(1);
    nn::Sequential net(nn::BatchNorm1d(4), nn::Linear(4, 2));
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    optim::ConstantLR schedule(sgd);
    const auto set = two_clouds(48), test = two_clouds(31);
    data::DataLoader loader(
        set,
        {.batch_size = 8, .shuffle = true, .rank = comm->rank(), .world_size = comm->world_size()});
    train::fit(
        net, sgd, schedule,
        {.train = loader, .train_images = 48, .batch_size = 24, .test = test, .test_transform = {}},
        comm, {.epochs = 1});
    comm->agree("the statistics", io::param_hash(net.state_dict()));
  });
}

TEST_F(Fit, RanksCompareWhatTheyAreAskedFor) {
  const auto error_of = [&](auto train_rank) {
    return test::message_of<CommError>(
        [&] { test::on_ranks(2, [&](auto comm) { train_rank(comm, comm->rank()); }); });
  };
  const auto set = two_clouds(50), longer = two_clouds(60), test = two_clouds(31);
  EXPECT_EQ(error_of([&](auto comm, int r) { train({.epochs = 1 + r}, set, test, comm); }),
            "rank 1 has epochs 2 where rank 0 has epochs 1");
  EXPECT_EQ(error_of([&](auto comm, int r) { train({}, set, test, comm, 0.1 * (1 + r)); }),
            "rank 1 has learning rate 0.2 where rank 0 has learning rate 0.1");
  EXPECT_EQ(error_of([&](auto comm, int r) { train({}, r == 1 ? longer : set, test, comm); }),
            "rank 1 has training images 60 where rank 0 has training images 50");
  EXPECT_EQ(error_of([&](auto comm, int r) {
              train({.checkpoint_dir = folder_ / (r == 1 ? "b" : "a")}, set, test, comm);
            }),
            concat("rank 1 has checkpoint_dir ", (folder_ / "b").string(),
                   " where rank 0 has checkpoint_dir ", (folder_ / "a").string()));
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_EQ(error_of([&](auto comm, int r) {
              train({.config = {{"seed", std::int64_t{r}}}}, set, test, comm);
            }),
            "rank 1 has seed 1 where rank 0 has seed 0");
  EXPECT_EQ(
      error_of([&](auto comm, int r) { train({}, set, test, comm, 0.1, 100, r == 1 ? 0 : 0.9); }),
      "rank 1 has optimizer's momentum 0 where rank 0 has optimizer's momentum 0.9");
  const auto metric = [](const Tensor& y, const Tensor&) { return y.sum(); };
  EXPECT_EQ(error_of([&](auto comm, int r) {
              train({.metrics = {{r == 1 ? "b" : "a", metric}}}, set, test, comm);
            }),
            "rank 1 has metrics b where rank 0 has metrics a");
}

TEST_F(Fit, ACheckpointThatIsNoRunsIsPassedOver) {
  train::FitOptions options{.epochs = 2, .checkpoint_dir = folder_};
  train(options);
  const std::string newest = folder_ / "checkpoint.safetensors";
  io::Checkpoint checkpoint = io::load_checkpoint(newest);
  checkpoint.generators.clear();
  io::save_checkpoint(newest, checkpoint);
  options.resume = true;
  EXPECT_NO_THROW(train(options));  // from the one before
  io::save_checkpoint(newest, checkpoint);
  fs::remove_all(folder_ / "kept");
  EXPECT_ERROR(train(options), IoError, "lacks the state of the random generator");
}

TEST(Progress, Durations) {
  EXPECT_EQ(train::format_duration(0.2), "0:00");
  EXPECT_EQ(train::format_duration(65), "1:05");
  EXPECT_EQ(train::format_duration(3723), "1:02:03");
  EXPECT_EQ(train::format_duration(-1), "0:00");
}

TEST(Progress, RatesOfSlowRunsAreNotZero) {
  EXPECT_EQ(train::format_rate(1234.5), "1234");
  EXPECT_EQ(train::format_rate(0.25), "0.25");
}

TEST(Progress, OffATerminalEveryTenthIsALine) {
  std::ostringstream out;
  {
    train::ProgressBar bar(&out, "epoch 1/2", 200, "img");
    for (int i = 1; i <= 200; ++i) bar.update(i, "loss 1.5");
  }
  std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_NE(text.find("epoch 1/2 [====================] 100%"), std::string::npos) << text;
  EXPECT_NE(text.find("loss 1.5"), std::string::npos);
}

TEST(Progress, ABarIsRewrittenOnceASecond) {
  std::ostringstream out, silent;
  {
    train::ProgressBar bar(&out, "epoch 1/2", 200, "img", train::ProgressStyle::bar);
    train::ProgressBar none(&silent, "epoch 1/2", 200, "img", train::parse_progress("none"));
    for (int i = 1; i <= 200; ++i) bar.update(i, "loss 1.5"), none.update(i, "");
  }
  std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0);
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 6);  // the first, the last, and clearing
  EXPECT_NE(text.find("epoch 1/2 [====================] 100%"), std::string::npos) << text;
  EXPECT_EQ(silent.str(), "");
  EXPECT_ERROR(train::parse_progress("dots"), Error, "must be auto, bar, lines or none");
}

}  // namespace
}  // namespace rondo
