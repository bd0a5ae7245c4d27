// A trace of two ranks: does it contain all parts of a step, on the correct lanes?

#include "train/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "autograd/ops/reduce.h"
#include "dist/data_parallel/ddp.h"
#include "nn/containers.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/ddp_checks.h"
#include "support/ranks.h"
#include "tensor/creation.h"
#include "train/profiler.h"
#include "train/trainer.h"

namespace rondo::train {
namespace {

using Json = nlohmann::json;

class TraceTest : public ::testing::TestWithParam<bool> {
 protected:
  ~TraceTest() override { std::filesystem::remove(path_); }
  Json read() const {
    std::ifstream in(path_);
    return Json::parse(in);
  }
  std::filesystem::path path_ =
      ::testing::TempDir() + "rondo_trace_" + std::to_string(getpid()) + ".json";
};

TEST_P(TraceTest, HasEveryStepOfEveryRank) {
  auto run = GetParam() ? test::on_ranks_sharing_memory : test::on_ranks;
  run(2,
      [&](std::shared_ptr<dist::Communicator> comm) {
        nn::Sequential net(nn::Linear(4, 8), nn::Linear(8, 2));
        test::set_weights(net, 1);
        optim::SGD sgd(net.parameters(), {.lr = 0.1});
        auto data =
            std::make_shared<data::TensorDataset>(ones({16, 4}), zeros({16}, {.dtype = i64}));
        Trainer trainer(net, sgd,
                        {.epochs = 2,
                         .batch_size = 8,
                         .comm = comm,
                         .threads = 1,
                         .out = nullptr,
                         .fit = {.trace = path_}});
        trainer.fit(data, data);
      },
      {.timeout = std::chrono::seconds(60)});
  const Json trace = read();
  std::map<std::pair<int, std::string>, int> counts;
  std::set<std::string> processes;
  for (const Json& event : trace.at("traceEvents")) {
    const int rank = event.at("pid");
    if (event.at("ph") == "M") {
      if (event.at("name") == "process_name") processes.insert(event.at("args").at("name"));
      continue;
    }
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("dur").get<double>(), 0);
    const std::string name = event.at("name");
    ++counts[{rank, name.substr(0, name.find(" ("))}];
    EXPECT_EQ(event.at("tid"), event.at("cat") == "communication" ? 1 : 0) << name;
    if (event.at("cat") == "communication") {
      EXPECT_GE(event.at("args").at("queued ms"), 0) << name;
    }
  }
  EXPECT_EQ(processes.size(), 2U);
  EXPECT_THAT(*processes.begin(), ::testing::StartsWith("rank 0 on "));
  for (int rank : {0, 1}) {
    for (const char* name : {"wait for data", "forward", "backward", "wait for gradients",
                             "optimizer", "all_reduce of bucket 1 of 1"})
      EXPECT_EQ((counts[{rank, name}]), 4) << name << " on rank " << rank;
    EXPECT_EQ((counts[{rank, "evaluation"}]), 2);
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, TraceTest, ::testing::Bool());

TEST(Profile, NamesTheBucketOfAGradient) {
  std::string shapes;
  test::on_ranks(2, [&](std::shared_ptr<dist::Communicator> comm) {
    nn::Sequential net(nn::Linear(4, 2));
    dist::DDP ddp(net, comm);
    Profiler profiler({.record_shapes = true});
    std::optional<Profiler::Recording> recording;
    if (comm->rank() == 0) recording.emplace(profiler.start());
    sum(ddp(ones({3, 4}))).backward();
    if (comm->rank() != 0) return;
    profiler.stop();
    for (const ProfileEvent& event : profiler.threads()[0].events)
      if (event.name == "accumulate_grad") shapes += concat(event.shapes, "\n");
  });
  EXPECT_EQ(shapes,
            "[2, 4] f32, [2, 4] f32 by DDP: 0.weight in bucket 1 of 1 (0.bias … 0.weight)\n"
            "[2] f32, [2] f32 by DDP: 0.bias in bucket 1 of 1 (0.bias … 0.weight)\n");
}

TEST(TimelineTrace, GroupsHaveLanesOfTheirOwn) {
  const std::filesystem::path path =
      ::testing::TempDir() + "rondo_trace_of_groups_" + std::to_string(getpid()) + ".json";
  test::on_ranks(3, [&](std::shared_ptr<dist::Communicator> comm) {
    TimelineTrace trace(*comm, path);
    const auto group = comm->new_group({0, 2});
    if (group != nullptr) group->all_reduce(ones({4}));
    trace.write(path);
  });
  std::ifstream in(path);
  const Json all = Json::parse(in);
  std::map<int, std::set<std::string>> on_lane_2;
  for (const Json& event : all.at("traceEvents")) {
    if (event.at("tid") != 2) continue;
    const std::string name = event.at("ph") == "M" ? event.at("args").at("name") : event.at("name");
    on_lane_2[event.at("pid")].insert(name);
  }
  const std::set<std::string> wanted = {"collectives of group {0, 2}",
                                        "all_reduce 0 (sum, f32 [4])"};
  EXPECT_EQ(on_lane_2[0], wanted);
  EXPECT_EQ(on_lane_2[2], wanted);
  EXPECT_TRUE(on_lane_2[1].empty());
  std::filesystem::remove(path);
}

TEST(TimelineTrace, OfARunThatFailsEveryRankWritesItsOwn) {
  const std::filesystem::path folder =
      ::testing::TempDir() + "rondo_trace_of_failure_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  EXPECT_THROW(test::on_ranks(2,
                              [&](std::shared_ptr<dist::Communicator> comm) {
                                TimelineTrace trace(*comm, folder / "trace.json");
                                { const TimelineTrace::Span span(&trace, "forward"); }
                                comm->all_reduce(ones({4}));
                                const Tensor late = ones({5});
                                if (comm->rank() == 0) comm->all_reduce_async(late).wait();
                                throw Error("the run has failed");
                              },
                              {.timeout = std::chrono::milliseconds(300)}),
               Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "trace.json"));
  for (int rank : {0, 1}) {
    std::ifstream in(folder / concat("trace.rank", rank, ".json"));
    std::string names;
    const Json all = Json::parse(in);
    for (const Json& event : all.at("traceEvents")) {
      EXPECT_EQ(event.at("pid"), rank);
      names += event.at("name").get<std::string>() + '\n';
    }
    EXPECT_THAT(names, ::testing::HasSubstr("forward\n"));
    EXPECT_THAT(names, ::testing::HasSubstr("(sum, f32 [4])\n"));
    if (rank == 0) {
      EXPECT_THAT(names, ::testing::ContainsRegex("\\(sum, f32 \\[5\\].*\\) \\(failed\\)\n"));
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(TimelineTrace, SpansOfNoTraceAreNothing) {
  const TimelineTrace::Span span(nullptr, "forward");
}

TEST(TimelineTrace, AFileThatCannotBeWrittenIsAnError) {
  test::on_ranks(1, [](std::shared_ptr<dist::Communicator> comm) {
    TimelineTrace trace(*comm);
    EXPECT_THROW(trace.write("/no/such/folder/trace.json"), IoError);
  });
}

}  // namespace
}  // namespace rondo::train
