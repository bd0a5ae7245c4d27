#include "dist/collectives/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/collectives.h"
#include "support/ranks.h"

namespace rondo::dist {
namespace {

using test::on_ranks;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TunerTest : public ::testing::Test {
 protected:
  TunerTest() { std::filesystem::remove_all(folder_); }
  ~TunerTest() override { std::filesystem::remove_all(folder_); }
  std::string text() const {
    std::stringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_ / "cache");
    std::ofstream(file_) << text;
  }
  CommunicatorOptions options() const {
    return {.timeout = std::chrono::seconds(60), .tune = true, .tuning_file = file_};
  }

  std::filesystem::path folder_ = ::testing::TempDir() + "rondo_tuner_" + std::to_string(getpid());
  std::string file_ = folder_ / "cache" / "all_reduce.txt";
};

TEST_F(TunerTest, MeasuresASizeClassOnceAndKeepsWhatItFound) {
  std::vector<AllReduce> found(3);
  on_ranks(3, [&](std::shared_ptr<Communicator> comm) {
    Tuner tuner(*comm, file_);
    EXPECT_EQ(tuner.fastest(5000), std::nullopt);
    tuner.learn(5000);
    const AllReduce algorithm = tuner.fastest(5000).value();
    found[static_cast<std::size_t>(comm->rank())] = algorithm;
    EXPECT_EQ(tuner.fastest(4096), algorithm);
    EXPECT_EQ(tuner.fastest(8191), algorithm);
  });
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
  // All algorithms that were measured, sorted by time.
  EXPECT_THAT(text(), StartsWith(std::string("thread 3 4096 ") + name_of(found[0]) + " "));
  for (const char* algorithm : {"doubling", "halving", "pairwise", "direct", "tree", "ring"})
    EXPECT_THAT(text(), HasSubstr(std::string(" ") + algorithm));
}

TEST_F(TunerTest, KnowsTheFastestOfThoseThatAreGood) {
  write("thread 2 4096 ring pairwise tree\n");
  on_ranks(2, [&](std::shared_ptr<Communicator> comm) {
    const Tuner tuner(*comm, file_);
    EXPECT_EQ(tuner.fastest(4096), AllReduce::ring);
    const auto is = [](AllReduce a, AllReduce b) {
      return [=](AllReduce algorithm) { return algorithm == a || algorithm == b; };
    };
    EXPECT_EQ(tuner.fastest(4096, is(AllReduce::tree, AllReduce::pairwise)), AllReduce::pairwise);
    EXPECT_EQ(tuner.fastest(4096, is(AllReduce::direct, AllReduce::mpi)), std::nullopt);
  });
}

TEST_F(TunerTest, TakesWhatTheFileSaysOfThisWorldAndKeepsTheRest) {
  write(
      "thread 2 64 tree\nthread 3 64 direct\nthread 2 128 no_such_way\n"
      "thread 2 1048576 direct\nnonsense\n");
  on_ranks(2, [&](std::shared_ptr<Communicator> comm) {
    Tuner tuner(*comm, file_);
    EXPECT_EQ(tuner.fastest(64), AllReduce::tree);
    EXPECT_EQ(tuner.fastest(100), AllReduce::tree);
    tuner.learn(128);
    EXPECT_EQ(tuner.fastest(1 << 20), std::nullopt);  // direct is not tried at this size
  });
  EXPECT_THAT(text(), HasSubstr("thread 3 64 direct\n"));
  EXPECT_THAT(text(), HasSubstr("thread 2 64 tree\n"));
  EXPECT_THAT(text(), ::testing::Not(HasSubstr("no_such_way")));
}

// A link under a name that others can guess, and a pipe that would block a reader.
TEST_F(TunerTest, PlantedFilesAreLeftAlone) {
  namespace fs = std::filesystem;
  fs::create_directories(folder_ / "cache");
  std::ofstream(folder_ / "victim") << "mine";
  fs::create_symlink(folder_ / "victim", concat(file_, '.', getpid()));
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  on_ranks(2, [&](std::shared_ptr<Communicator> comm) {
    Tuner tuner(*comm, file_);
    tuner.learn(64);
  });
  EXPECT_TRUE(fs::is_regular_file(file_));
  EXPECT_THAT(text(), StartsWith("thread 2 64 "));
  std::stringstream victim;
  victim << std::ifstream(folder_ / "victim").rdbuf();
  EXPECT_EQ(victim.str(), "mine");
}

TEST_F(TunerTest, AFileThatCannotBeWrittenIsNoError) {
  on_ranks(2, [&](std::shared_ptr<Communicator> comm) {
    Tuner tuner(*comm, "/proc/no/such/file");
    tuner.learn(64);
    EXPECT_TRUE(tuner.fastest(64).has_value());
  });
  // A folder with the name of the file.
  on_ranks(2, [&](std::shared_ptr<Communicator> comm) {
    Tuner tuner(*comm, ::testing::TempDir());
    tuner.learn(64);
  });
}

// Two groups use one file at the same time: neither loses the other's results.
TEST_F(TunerTest, KeepsWhatOthersHaveWrittenMeanwhile) {
  on_ranks(1, [&](std::shared_ptr<Communicator> comm) {
    Tuner first(*comm, file_), second(*comm, file_);
    first.learn(64);
    second.learn(256);
    first.learn(1024);
  });
  EXPECT_THAT(text(), HasSubstr("self 1 64 "));
  EXPECT_THAT(text(), HasSubstr("self 1 256 "));
  EXPECT_THAT(text(), HasSubstr("self 1 1024 "));
}

// `automatic`, as programs call it, for every dtype.
TEST_F(TunerTest, AutomaticIsTuned) {
  const auto check = [](std::shared_ptr<Communicator> comm) {
    const StoragePtr memory = comm->allocate(5);  // where it is measured
    comm->tune(4096);
    test::check_all_reduce(*comm, AllReduce::automatic);
  };
  on_ranks(4, check, options());
  const std::string measured = text();
  EXPECT_THAT(measured, HasSubstr("thread 4 4 "));
  on_ranks(4, check, options());
  EXPECT_EQ(text(), measured);
  CommunicatorOptions two_nodes = options();
  two_nodes.node_of = {0, 0, 1, 1};
  on_ranks(4, check, two_nodes);
  EXPECT_THAT(text(), HasSubstr("thread 2+2 4 "));
  EXPECT_THAT(text(), HasSubstr(measured));
}

TEST_F(TunerTest, GroupsAreTunedToo) {
  CommunicatorOptions nodes = options();
  nodes.node_of = {0, 1, 1, 1};
  on_ranks(
      4,
      [](std::shared_ptr<Communicator> comm) {
        const auto group = comm->new_group({1, 3, 0});
        if (group == nullptr) return;
        EXPECT_THAT(group->node_of(), ::testing::ElementsAre(1, 1, 0));
        group->tune(4);
        test::check_all_reduce(*group, AllReduce::automatic);
        test::check_all_reduce(*group, AllReduce::hierarchical);
      },
      nodes);
  EXPECT_THAT(text(), HasSubstr("thread 1+2 4 "));
}

TEST(CommunicatorOptionsTest, WantsTheNodeOfEveryRank) {
  EXPECT_THROW(on_ranks(2, [](std::shared_ptr<Communicator>) {}, {.node_of = {0}}), CommError);
}

}  // namespace
}  // namespace rondo::dist
