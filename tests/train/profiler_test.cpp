// The profile of steps whose ops, arithmetic and order are known in advance.

#include "train/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/ops/loss.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "tensor/creation.h"

namespace rondo::train {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Net : nn::Module {
  nn::Conv2d conv{3, 4, 3, {.padding = 1}};
  nn::BatchNorm2d bn{4};
  nn::Linear fc{4 * 8 * 8, 10};
  Tensor forward(const Tensor& x) override { return fc(relu(bn(conv(x))).flatten(1)); }
  void visit(nn::Visitor& v) override {
    v.child("conv", conv);
    v.child("bn", bn);
    v.child("fc", fc);
  }
};

class ProfilerTest : public ::testing::Test {
 protected:
  static constexpr int steps = 3, batch = 2;

  void train(Profiler& profiler) {
    const auto recording = profiler.start();
    for (int i = 0; i < steps; ++i) {
      Tensor loss = cross_entropy(net_(images_), targets_);
      sgd_.zero_grad();
      loss.backward();
      sgd_.step();
      profiler.step();
    }
  }
  static const KeyAverage& row(const std::vector<KeyAverage>& rows, const std::string& name,
                               const std::string& module = "") {
    for (const KeyAverage& r : rows)
      if (r.name == name && r.module == module) return r;
    throw Error(concat("missing row: ", name, " of \"", module, '"'));
  }

  Net net_;
  optim::SGD sgd_{net_.parameters(), {.lr = 0.1, .momentum = 0.9}};
  Tensor images_ = ones({batch, 3, 8, 8});
  Tensor targets_ = zeros({batch}, {.dtype = i64});
};

TEST_F(ProfilerTest, RowsAreTheOpsOfTheModel) {
  Profiler profiler;
  train(profiler);
  std::map<std::string, std::pair<std::int64_t, Phase>> rows;
  for (const KeyAverage& r : profiler.key_averages()) {
    EXPECT_TRUE(rows.emplace(r.name, std::pair(r.calls / steps, r.phase)).second) << r.name;
    EXPECT_TRUE(r.is_main);
  }
  const std::map<std::string, std::pair<std::int64_t, Phase>> expected = {
      {"other", {0, Phase::other}},
      {"module forward", {4, Phase::forward}},  // the model and its three
      {"conv2d", {1, Phase::forward}},
      {"add_", {1, Phase::forward}},  // of batch norm's num_batches_tracked
      {"batch_norm", {1, Phase::forward}},
      {"relu", {1, Phase::forward}},
      {"copy", {1, Phase::forward}},  // flatten, because a convolution's output is channels_last
      {"linear", {1, Phase::forward}},
      {"cross_entropy", {1, Phase::forward}},
      {"backward", {1, Phase::backward}},
      {"cross_entropy backward", {1, Phase::backward}},
      {"linear backward", {1, Phase::backward}},
      {"reshape backward", {1, Phase::backward}},
      {"relu backward", {1, Phase::backward}},
      {"batch_norm backward", {1, Phase::backward}},
      {"conv2d backward", {1, Phase::backward}},
      {"accumulate_grad", {6, Phase::backward}},  // for two weights, two biases, gamma and beta
      {"fill_", {1, Phase::backward}},            // d loss / d loss = 1
      {"SGD step", {1, Phase::optimizer}},
  };
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(profiler.steps(), steps);
}

TEST_F(ProfilerTest, SelfTimesAddUpToTheWhole) {
  Profiler profiler;
  train(profiler);
  double sum = 0, shares = 0;
  for (const KeyAverage& r : profiler.key_averages()) {
    EXPECT_LE(r.self_ms, r.total_ms * (1 + 1e-12)) << r.name;
    EXPECT_GE(r.self_ms, 0) << r.name;
    sum += r.self_ms;
    shares += r.share;
  }
  EXPECT_GT(profiler.total_ms(), 0);
  EXPECT_NEAR(sum, profiler.total_ms(), 1e-9 * profiler.total_ms());
  EXPECT_NEAR(shares, 1, 1e-9);
  sum = 0;
  for (const auto& [phase, ms] : profiler.phases()) sum += ms;
  EXPECT_NEAR(sum, profiler.total_ms(), 1e-9 * profiler.total_ms());
  // The whole backward with its nodes, and the model's forward with its modules'.
  const auto rows = profiler.key_averages();
  EXPECT_GT(row(rows, "backward").total_ms, row(rows, "conv2d backward").total_ms);
  EXPECT_GT(row(rows, "module forward").total_ms,
            row(rows, "conv2d").total_ms + row(rows, "linear").total_ms);
  EXPECT_LT(row(rows, "module forward").total_ms, profiler.total_ms());
}

TEST_F(ProfilerTest, ArithmeticIsThatOfThePapers) {
  Profiler profiler({.record_shapes = true});
  train(profiler);
  const auto rows = profiler.key_averages();
  // 2 operations per output position and weight; the images need no gradient.
  const double conv = 2.0 * batch * 4 * 8 * 8 * (3 * 3 * 3), linear = 2.0 * batch * 256 * 10;
  EXPECT_EQ(row(rows, "conv2d").flops, steps * conv);
  EXPECT_EQ(row(rows, "conv2d backward").flops, steps * conv);
  EXPECT_EQ(row(rows, "linear").flops, steps * linear);
  EXPECT_EQ(row(rows, "linear backward").flops, steps * 2 * linear);
  EXPECT_EQ(row(rows, "relu").flops, 0);
  EXPECT_EQ(row(rows, "relu").bytes, steps * 4.0 * 2 * (batch * 4 * 8 * 8));
  const KeyAverage r = row(rows, "conv2d");
  EXPECT_NEAR(r.gflops_per_s(), steps * conv / (r.total_ms * 1e6), 1e-9 * r.gflops_per_s());
  const auto by_shape = profiler.key_averages({.shapes = true});
  EXPECT_THAT(row(by_shape, "conv2d").shapes,
              HasSubstr(concat(Dims{batch, 3, 8, 8}, " f32, ", Dims{4, 3, 3, 3}, " f32")));
}

TEST_F(ProfilerTest, ModulesKnowTheirForwardAndBackward) {
  Profiler profiler;
  train(profiler);
  std::vector<std::string> paths;
  double time = 0;
  for (const ModuleTime& m : profiler.modules()) {
    paths.push_back(m.path);
    EXPECT_EQ(m.calls, steps) << m.path;
    EXPECT_GT(m.forward_ms, 0) << m.path;
    EXPECT_GT(m.backward_ms, 0) << m.path;
    time += m.forward_ms + m.backward_ms;
  }
  EXPECT_THAT(paths, ::testing::ElementsAre("", "conv", "bn", "fc"));
  EXPECT_LT(time, profiler.total_ms());
  const auto rows = profiler.key_averages({.module = true});
  EXPECT_EQ(row(rows, "linear backward", "fc").calls, steps);
  EXPECT_EQ(row(rows, "relu backward", "").calls, steps);  // called directly by the model
}

TEST_F(ProfilerTest, ComposedOpsAreOneRow) {
  nn::LayerNorm norm(8);
  norm.to(f64);  // for f32 there is a kernel
  const Tensor images = images_.to(f64);
  Profiler whole, parts({.nested = true});
  for (Profiler* profiler : {&whole, &parts}) {
    const auto recording = profiler->start();
    norm(images);
  }
  std::vector<std::string> names;
  for (const KeyAverage& r : whole.key_averages()) names.push_back(r.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("other", "module forward", "layer_norm"));
  names.clear();
  for (const KeyAverage& r : parts.key_averages()) names.push_back(r.name);
  EXPECT_THAT(names, Contains("mean"));
  const auto rows = parts.key_averages();
  EXPECT_LT(row(rows, "layer_norm").self_ms, row(rows, "layer_norm").total_ms);
}

TEST_F(ProfilerTest, TheLoadersThreadsAreBesideTheMainOne) {
  auto set = std::make_shared<data::TensorDataset>(ones({6, 4}), zeros({6}, {.dtype = i64}));
  data::DataLoader loader(set, std::make_shared<data::SequentialSampler>(6),
                          {.batch_size = 2, .workers = 1});
  Profiler profiler;
  {
    const auto recording = profiler.start();
    for (auto& batch : loader) (void)batch;
  }
  const auto rows = profiler.key_averages();
  const KeyAverage load = row(rows, "load batch");
  EXPECT_EQ(load.calls, 3);
  EXPECT_FALSE(load.is_main);
  EXPECT_EQ(load.phase, Phase::data);
  EXPECT_EQ(row(rows, "wait for batch").calls, 3);
  EXPECT_TRUE(row(rows, "wait for batch").is_main);
  const std::string table = profiler.table();
  EXPECT_THAT(table, HasSubstr("on other threads at the same time"));
  EXPECT_LT(table.find("wait for batch"), table.find("on other threads"));
  EXPECT_GT(table.find("load batch"), table.find("on other threads"));
}

TEST_F(ProfilerTest, TheTableSaysWhatItHolds) {
  Profiler profiler;
  EXPECT_EQ(profiler.table(), "profiler: nothing was recorded\n");
  train(profiler);
  const std::string table = profiler.table({.row_limit = 4});
  EXPECT_THAT(table, ::testing::StartsWith("3 steps of "));
  EXPECT_THAT(table, HasSubstr("15 more"));  // out of 19 rows
  EXPECT_THAT(table, HasSubstr("forward "));
  EXPECT_THAT(table, Not(HasSubstr("did not fit")));
  Profiler small({.max_events = 5});
  train(small);
  EXPECT_GT(small.dropped(), 0);
  EXPECT_THAT(small.table(), HasSubstr("more events did not fit"));
}

TEST_F(ProfilerTest, ItsTraceIsChromes) {
  const std::filesystem::path path =
      ::testing::TempDir() + "rondo_profile_" + std::to_string(getpid()) + ".json";
  Profiler profiler({.record_shapes = true, .profile_memory = true});
  {
    const auto recording = profiler.start();
    const RecordFunction range("a \"range\" with \\ and \xff");
    net_(images_);
    profiler.step();
  }
  profiler.write_chrome_trace(path, 7);
  std::ifstream in(path);
  const auto trace = nlohmann::json::parse(in);
  std::filesystem::remove(path);
  double last = 0;
  std::map<std::string, nlohmann::json> events;
  for (const auto& event : trace.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 7);
    if (event.at("ph") == "M") continue;
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("ts").get<double>(), last);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    last = event.at("ts");
    events[event.at("name")] = event;
  }
  EXPECT_EQ(events.at("conv2d").at("tid"), 0);
  EXPECT_EQ(events.at("conv2d").at("cat"), "op");
  EXPECT_EQ(events.at("conv2d").at("args").at("flops"), 2.0 * batch * 4 * 8 * 8 * 27);
  // The op's output is alive at its end, in addition to what was before.
  EXPECT_GE(events.at("conv2d").at("args").at("live bytes"), batch * 4 * 8 * 8 * sizeof(float));
  EXPECT_THAT(events.at("conv2d").at("args").at("shapes").get<std::string>(), HasSubstr("f32"));
  EXPECT_EQ(events.at("conv").at("cat"), "module");
  EXPECT_EQ(events.at("step 1").at("tid"), 1);
  EXPECT_EQ(events.count("a \"range\" with \\ and \xef\xbf\xbd"), 1U);
}

TEST_F(ProfilerTest, MisuseIsAnError) {
  Profiler profiler, other;
  EXPECT_ERROR(profiler.stop(), Error, "stop() without a start()");
  EXPECT_ERROR(profiler.step(), Error, "step() without a start()");
  EXPECT_ERROR(profiler.write_chrome_trace("x.json"), Error, "nothing was recorded");
  {
    const auto recording = profiler.start();
    EXPECT_ERROR(profiler.start(), Error, "a recording is already running");
    EXPECT_ERROR(other.start(), Error, "a recording is already running");
    EXPECT_ERROR(other.stop(), Error, "stop() without a start()");
    profiler.stop();
  }
  EXPECT_ERROR(profiler.write_chrome_trace("/no/such/folder/x.json"), IoError,
               "/no/such/folder/x.json");
  EXPECT_THAT(Profiler().key_averages(), IsEmpty());
  Profiler none({.max_events = 0});
  EXPECT_ERROR(none.start(), Error, "max_events is 0");
}

}  // namespace
}  // namespace rondo::train
