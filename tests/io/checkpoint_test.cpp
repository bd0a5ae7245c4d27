// Checkpoints: everything is restored, errors name the damage, the latest one is found.

#include "io/checkpoint.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "io/hash.h"
#include "io/safetensors.h"
#include "optim/adam.h"
#include "optim/one_cycle.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/hashed.h"

namespace rondo {
namespace {

using io::Checkpoint;
using io::load_checkpoint;
using io::save_checkpoint;
using test::message_of;
using ::testing::HasSubstr;
using ::testing::Not;

/// A run's state after `steps` steps of AdamW under a chained schedule.
struct Training {
  Tensors params = test::hashed_parameters();
  optim::AdamW optimizer{params, {.lr = 0.01, .amsgrad = true}};
  optim::SequentialLR schedule{
      {std::make_shared<optim::LinearLR>(optimizer),
       std::make_shared<optim::OneCycleLR>(
           optimizer, optim::OneCycleLROptions{.max_lr = 0.3, .total_steps = 100})},
      {4}};

  void advance(std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t step = from; step <= to; ++step) {
      test::set_hashed_gradients(params, step);
      optimizer.step();
      schedule.step();
    }
  }
  nn::StateDict state() { return {{"a", params[0]}, {"b.weight", params[1]}, {"c", params[2]}}; }
  Checkpoint checkpoint() {
    Checkpoint c;
    c.model = "resnet20";
    c.config = {{"batch", 128}, {"lr", 0.5}, {"dataset", "cifar10"}};
    c.model_state = state();
    c.optimizer = optimizer.state_dict();
    c.schedule = schedule.state_dict();
    c.position = {.epoch = 3, .step = 17, .global_step = 1190};
    c.generators = {{"default", {.seed = ~std::uint64_t{0}, .next_stream = 12}}};
    c.world_size = 2;
    c.threads = 1;
    c.metadata = {{"loss", std::numeric_limits<double>::infinity()},
                  {"best", 2.0},
                  {"kernel", "caf\xc3\xa9"},
                  {"count", std::int64_t{1} << 60}};
    return c;
  }
};

TEST(Checkpoint, EverythingComesBack) {
  test::TemporaryFolder folder;
  std::string path = folder / "last.safetensors";
  Training run;
  run.advance(1, 20);
  Checkpoint saved = run.checkpoint();
  save_checkpoint(path, saved);
  Checkpoint c = load_checkpoint(path, "resnet20");
  EXPECT_EQ(c.model, saved.model);
  EXPECT_EQ(c.config, saved.config);
  EXPECT_EQ(c.position, saved.position);
  EXPECT_EQ(c.generators, saved.generators);
  EXPECT_EQ(c.world_size, 2);
  EXPECT_EQ(c.threads, 1);
  EXPECT_EQ(c.metadata, saved.metadata);
  EXPECT_EQ(c.schedule, saved.schedule);
  ASSERT_TRUE(c.optimizer.has_value());
  EXPECT_EQ(c.optimizer->type, "AdamW");
  EXPECT_EQ(c.optimizer->groups, saved.optimizer->groups);
  EXPECT_EQ(io::param_hash(c.model_state), io::param_hash(saved.model_state));
  EXPECT_EQ(io::param_hash(c.optimizer->tensors), io::param_hash(saved.optimizer->tensors));
}

TEST(Checkpoint, TrainingGoesOnBitForBit) {
  test::TemporaryFolder folder;
  std::string path = folder / "last.safetensors";
  Training first, second;
  first.advance(1, 20);
  save_checkpoint(path, first.checkpoint());
  first.advance(21, 60);
  Checkpoint c = load_checkpoint(path);
  for (std::size_t i = 0; i < 3; ++i) second.params[i].set_data(c.model_state[i].tensor);
  second.optimizer.load_state_dict(*c.optimizer);
  second.schedule.load_state_dict(*c.schedule);
  second.advance(21, 60);
  EXPECT_EQ(io::param_hash(first.state()), io::param_hash(second.state()));
  EXPECT_EQ(first.optimizer.lr(), second.optimizer.lr());
}

TEST(Checkpoint, NanAndIntegralNumbersKeepTheirKind) {
  test::TemporaryFolder folder;
  Checkpoint c;
  c.metadata = {{"nan", std::nan("")}, {"two", 2.0}, {"zero", -0.0}, {"tiny", 5e-324}};
  save_checkpoint(folder / "a", c);
  auto metadata = load_checkpoint(folder / "a").metadata;
  EXPECT_TRUE(std::isnan(std::get<double>(metadata.at("nan"))));
  EXPECT_EQ(std::get<double>(metadata.at("two")), 2.0);
  EXPECT_TRUE(std::signbit(std::get<double>(metadata.at("zero"))));
  EXPECT_EQ(std::get<double>(metadata.at("tiny")), 5e-324);
  EXPECT_FALSE(load_checkpoint(folder / "a").optimizer.has_value());
}

TEST(Checkpoint, WrongModelIsNamed) {
  test::TemporaryFolder folder;
  std::string path = folder / "a.safetensors";
  save_checkpoint(path, Training().checkpoint());
  EXPECT_EQ(message_of<IoError>([&] { load_checkpoint(path, "resnet18"); }),
            path + " is a checkpoint of the model resnet20, not of resnet18");
}

TEST(Checkpoint, DamageIsNamed) {
  test::TemporaryFolder folder;
  std::string path = folder / "a.safetensors", bad = folder / "bad.safetensors";
  Training run;
  run.advance(1, 2);
  save_checkpoint(path, run.checkpoint());
  std::string whole = test::read_file(path);
  for (std::size_t cut : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{100},
                          whole.size() / 2, whole.size() - 1}) {
    test::write_file(bad, whole.substr(0, cut));
    EXPECT_THAT(message_of<IoError>([&] { load_checkpoint(bad); }), HasSubstr(bad + " is cut"))
        << cut;
  }
  // A prime stride reaches every part: length, checksum, description, entries, data.
  for (std::size_t byte = 0; byte < whole.size(); byte += 7) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 1 << byte % 8);
    test::write_file(bad, damaged);
    ASSERT_THAT(message_of<IoError>([&] { load_checkpoint(bad); }), HasSubstr(bad))
        << "byte " << byte;
  }
  EXPECT_THAT(message_of<IoError>([&] { load_checkpoint(folder / "none"); }),
              HasSubstr("No such file"));
}

TEST(Checkpoint, OtherFilesAreNoCheckpoints) {
  test::TemporaryFolder folder;
  std::string path = folder / "a.safetensors";
  io::save_safetensors(path, {{"w", ones({3})}});
  EXPECT_THAT(message_of<IoError>([&] { load_checkpoint(path); }), HasSubstr("not a checkpoint"));
  auto described = [&](const std::string& text, const nn::StateDict& tensors = {}) {
    io::save_safetensors(path, tensors, {{"rondo.checkpoint", text}});
    return message_of<IoError>([&] { load_checkpoint(path); });
  };
  EXPECT_THAT(described("{"), HasSubstr("not a JSON object with a version"));
  EXPECT_THAT(described("{\"version\": 99}"), HasSubstr("format version 99"));
  EXPECT_EQ(described("{\"version\": 1}"),
            path + " is not a valid checkpoint: its description has no \"model\"");
  EXPECT_EQ(described("{\"version\": 1, \"model\": 3}"),
            path + " is not a valid checkpoint: 3 is not a text");
  EXPECT_EQ(described("{\"version\": 1, \"model\": \"\", \"config\": []}"),
            path + " is not a valid checkpoint: \"config\" is not an object");
  const std::string deep(200'000, '['), up(200'000, ']');
  EXPECT_THAT(
      described(concat("{\"version\": 1, \"model\": \"\", \"config\": {\"a\": ", deep, up, "}}")),
      HasSubstr("its array is not a 64-bit integer"));
  Checkpoint empty;
  save_checkpoint(path, empty);
  auto text = io::load_safetensors_metadata(path).at("rondo.checkpoint");
  // Each wrong value must give one of rondo's errors, not one of the JSON reader's.
  Training run;
  run.advance(1, 2);
  save_checkpoint(path, run.checkpoint());
  const std::string whole = io::load_safetensors_metadata(path).at("rondo.checkpoint");
  for (std::size_t at = whole.find(':'); at != std::string::npos; at = whole.find(':', at + 1)) {
    for (const char* other : {"null", "{}", "[[]]"}) {
      std::size_t end = at + 1;  // of the value: brackets are in pairs, and no text contains one
      for (int depth = 0;
           depth > 0 || (whole[end] != ',' && whole[end] != '}' && whole[end] != ']'); ++end)
        depth += whole[end] == '{' || whole[end] == '['   ? 1
                 : whole[end] == '}' || whole[end] == ']' ? -1
                                                          : 0;
      const std::string said = described(whole.substr(0, at + 1) + other + whole.substr(end));
      EXPECT_THAT(said, Not(HasSubstr("json.exception"))) << at << other;
    }
  }
  EXPECT_THAT(described(text, {{"extra", ones({1})}}), HasSubstr("\"extra\" belongs neither"));
}

TEST(Checkpoint, FailedWriteLeavesTheOldOne) {
  test::TemporaryFolder folder;
  std::string path = folder / "a.safetensors";
  Checkpoint c = Training().checkpoint();
  save_checkpoint(path, c);
  std::string before = test::read_file(path);
  c.metadata["text"] = "\xff";
  EXPECT_THAT(message_of<IoError>([&] { save_checkpoint(path, c); }), HasSubstr("not UTF-8"));
  EXPECT_THAT(message_of<IoError>([&] { save_checkpoint(folder / "none/a", Checkpoint()); }),
              HasSubstr("No such file"));
  EXPECT_EQ(test::read_file(path), before);
  EXPECT_EQ(folder.count(), 1);
}

TEST(LatestCheckpoint, IsTheOneWithMostSteps) {
  test::TemporaryFolder folder;
  EXPECT_EQ(io::latest_checkpoint(folder.path()), std::nullopt);
  EXPECT_EQ(io::latest_checkpoint(folder / "none"), std::nullopt);
  auto save = [&](const std::string& name, std::int64_t step) {
    Checkpoint c;
    c.position.global_step = step;
    save_checkpoint(folder / name, c);
  };
  save("z.safetensors", 9);
  save("b.safetensors", 100);
  save("a.safetensors", 20);
  test::write_file(folder / "b.safetensors.tmp", "half-written");
  io::save_safetensors(folder / "weights.safetensors", {{"w", ones({3})}});
  EXPECT_EQ(io::latest_checkpoint(folder.path()), folder / "b.safetensors");
  test::write_file(folder / "cut.safetensors", std::string(3, '\0'));
  EXPECT_THAT(message_of<IoError>([&] { io::latest_checkpoint(folder.path()); }),
              HasSubstr("cut.safetensors is cut short"));
}

}  // namespace
}  // namespace rondo
