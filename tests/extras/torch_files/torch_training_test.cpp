// Training that continues from PyTorch's checkpoints, and checkpoints that PyTorch continues from
// (tests/golden/resume_training.py does).

#include "extras/torch_files/torch_training.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "extras/torch_files/pickle.h"
#include "extras/torch_files/torch_object.h"
#include "extras/torch_files/torch_values.h"
#include "nn/linear.h"
#include "optim/adam.h"
#include "optim/adaptive.h"
#include "optim/cyclic.h"
#include "optim/layerwise.h"
#include "optim/lbfgs.h"
#include "optim/one_cycle.h"
#include "optim/plateau.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo {
namespace {

using testing::HasSubstr;

/// A program with other settings than the file's.
struct TorchProgram {
  nn::Linear net{3, 2};
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::LRSchedule> schedule;

  explicit TorchProgram(const std::string& name) {
    const Tensors p = net.parameters();
    const std::string kind = name.substr(0, name.find('_'));
    if (kind == "sgd") optimizer = std::make_unique<optim::SGD>(p, optim::SgdOptions{.lr = 7});
    if (kind == "adam" || kind == "old")
      optimizer = std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = 7});
    if (kind == "adamw") optimizer = std::make_unique<optim::AdamW>(p);
    if (kind == "rmsprop") optimizer = std::make_unique<optim::RMSprop>(p);
    if (kind == "adagrad") optimizer = std::make_unique<optim::Adagrad>(p);
    optim::Optimizer& o = *optimizer;
    const std::string rest = name == "old" ? name : name.substr(kind.size() + 1);
    if (rest == "step")
      schedule = std::make_unique<optim::StepLR>(o, optim::StepLROptions{.step_size = 9});
    if (rest == "multi_step")
      schedule = std::make_unique<optim::MultiStepLR>(o, optim::MultiStepLROptions{{9}, 0.5});
    if (rest == "cosine")
      schedule = std::make_unique<optim::CosineAnnealingLR>(
          o, optim::CosineAnnealingLROptions{.t_max = 9});
    if (rest == "restarts")
      schedule = std::make_unique<optim::CosineAnnealingWarmRestarts>(
          o, optim::CosineAnnealingWarmRestartsOptions{.t_0 = 9});
    if (rest == "linear") schedule = std::make_unique<optim::LinearLR>(o);
    if (rest == "one_cycle")
      schedule = std::make_unique<optim::OneCycleLR>(
          o, optim::OneCycleLROptions{.max_lr = 7, .total_steps = 99});
    if (rest == "old")
      schedule = std::make_unique<optim::ExponentialLR>(o, optim::ExponentialLROptions{0.1});
  }

  io::TorchTraining parts() { return {&net, optimizer.get(), schedule.get()}; }

  void advance(std::uint32_t first) {
    for (std::uint32_t step = first; step < first + 3; ++step) {
      std::uint32_t k = 0;
      for (const Tensor& p : net.parameters()) p.set_grad(test::fill32(p.shape(), 10 * step + k++));
      optimizer->step();
      schedule->step();
    }
  }
};

const std::vector<std::string> torch_cases = {
    "sgd_step",       "adam_multi_step", "adamw_cosine",   "rmsprop_restarts",
    "adagrad_linear", "sgd_one_cycle",   "adam_one_cycle", "old"};

std::string torch_training_bytes(const std::string& name) {
  return test::golden_bytes("torch_training_hex.txt", name);
}

TEST(TorchTraining, ContinuesFromPyTorchsFile) {
  const test::Golden golden("torch_training.txt");
  const test::TemporaryFolder folder;
  for (const std::string& name : torch_cases) {
    const std::string path = folder / (name + ".pth");
    test::write_file(path, torch_training_bytes(name));
    TorchProgram program(name);
    const io::Metadata metadata = io::load_torch_training(path, program.parts());
    if (name != "old") {
      EXPECT_EQ(std::get<std::int64_t>(metadata.at("epoch")), 3);
      EXPECT_EQ(std::get<std::string>(metadata.at("name")), name);
    }
    program.advance(3);
    for (const auto& [key, p] : program.net.named_parameters())
      EXPECT_TRUE(test::all_close(p.detach(), golden[name + "." + key], 1e-6, 1e-5)) << name << key;
    const double lr = golden[name + ".lr"].item();
    EXPECT_NEAR(program.optimizer->lr(), lr, 1e-9 * lr) << name;
  }
}

std::optional<double> number_in(const io::PickleValue* value) {
  if (const auto* real = value->as<double>()) return *real;
  if (const auto* integer = value->as<std::int64_t>()) return static_cast<double>(*integer);
  if (const auto* truth = value->as<bool>()) return *truth ? 1 : 0;
  return std::nullopt;
}

/// Everything that PyTorch wrote must be there, with the same value and kind, except the settings
/// of its implementation, for which it has defaults; and nothing else.
void expect_same_object(const io::PickleValue* rondo, const io::PickleValue* torch,
                        const std::string& name) {
  static const std::set<std::string> defaults = {"foreach", "capturable", "differentiable",
                                                 "fused"};
  if (io::detail::is_tensor(torch)) {
    EXPECT_TRUE(io::detail::is_tensor(rondo)) << name;
  } else if (const auto* dict = torch->as<io::PickleDict>()) {
    ASSERT_NE(rondo->as<io::PickleDict>(), nullptr) << name;
    std::map<std::string, const io::PickleValue*> own;
    for (const auto& [key, value] : rondo->as<io::PickleDict>()->items) {
      EXPECT_EQ(key->as<std::int64_t>() != nullptr,
                dict->items[0].first->as<std::int64_t>() != nullptr);
      own[io::detail::key_text(key)] = value;
    }
    for (const auto& [key, value] : dict->items) {
      const std::string text = io::detail::key_text(key);
      if (defaults.contains(text)) continue;
      ASSERT_TRUE(own.contains(text)) << name << " has no " << text;
      if (text != "_step_count")  // PyTorch does not count those of CosineAnnealingWarmRestarts
        expect_same_object(own.at(text), value, name + "." + text);
      own.erase(text);
    }
    for (const auto& [text, value] : own) ADD_FAILURE() << name << " has " << text;
  } else if (const auto* list = torch->as<io::PickleSequence>()) {
    const auto* own = rondo->as<io::PickleSequence>();
    ASSERT_NE(own, nullptr) << name;
    ASSERT_EQ(own->items.size(), list->items.size()) << name;
    EXPECT_EQ(own->is_tuple, list->is_tuple) << name;
    for (std::size_t i = 0; i < list->items.size(); ++i)
      expect_same_object(own->items[i], list->items[i], concat(name, ".", i));
  } else if (const auto* call = torch->as<io::PickleCall>()) {  // a Counter
    const auto* own = rondo->as<io::PickleCall>();
    ASSERT_NE(own, nullptr) << name;
    EXPECT_EQ(own->name(), call->name()) << name;
    expect_same_object(own->arguments->items.at(0), call->arguments->items.at(0), name);
  } else if (const auto* text = torch->as<std::string>()) {
    ASSERT_NE(rondo->as<std::string>(), nullptr) << name;
    EXPECT_EQ(*rondo->as<std::string>(), *text) << name;
  } else if (const auto number = number_in(torch)) {
    ASSERT_TRUE(number_in(rondo).has_value()) << name;
    EXPECT_NEAR(*number_in(rondo), *number, 1e-12) << name;
    EXPECT_EQ(rondo->as<bool>() != nullptr, torch->as<bool>() != nullptr) << name;
  }
}

TEST(TorchTraining, WritesWhatPyTorchWrites) {
  const char* oracle = std::getenv("RONDO_ORACLE_FOLDER");  // for resume_training.py
  const test::TemporaryFolder temporary;
  const std::filesystem::path folder = oracle != nullptr ? oracle : temporary.path();
  for (const std::string& name : torch_cases) {
    if (name == "old") continue;
    const std::string path = folder / (name + ".pth"), bytes = torch_training_bytes(name);
    test::write_file(path, bytes);
    TorchProgram program(name);
    const io::Metadata metadata = io::load_torch_training(path, program.parts());
    io::save_torch_training(path, program.parts(), metadata);
    const std::string written = test::read_file(path);
    const auto parsed = [&](const std::string& file) {
      return io::detail::parse_torch_object(std::as_bytes(std::span(file)), name);
    };
    const io::Pickle rondo = parsed(written), torch = parsed(bytes);
    expect_same_object(rondo.root, torch.root, name);
    // The tensors are there, too.
    TorchProgram again(name);
    io::load_torch_training(path, again.parts());
    const auto state = program.optimizer->state_dict(), loaded = again.optimizer->state_dict();
    ASSERT_EQ(loaded.tensors.size(), state.tensors.size());
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      EXPECT_TRUE(test::identical(loaded.tensors[i].tensor, state.tensors[i].tensor)) << name;
    EXPECT_EQ(loaded.groups, state.groups) << name;
    EXPECT_EQ(again.schedule->last_step(), 3);
  }
}

TEST(TorchTraining, BadFiles) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "run.pth";
  const auto refusal = [&](const std::string& file, const std::string& program) {
    test::write_file(path, torch_training_bytes(file));
    TorchProgram mine(program);
    return test::message_of<Error>([&] { io::load_torch_training(path, mine.parts()); });
  };
  EXPECT_THAT(refusal("adam_multi_step", "adamw_cosine"),
              HasSubstr("optimizer is not the state of AdamW: its decoupled_weight_decay differs"));
  EXPECT_THAT(refusal("sgd_step", "adam_multi_step"),
              HasSubstr("run.pth: optimizer.param_groups.0 has no "));
  EXPECT_THAT(refusal("sgd_step", "sgd_one_cycle"), HasSubstr("scheduler has no total_steps"));
  nn::Linear net(3, 2), other(4, 2);
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  io::save_torch_training(path, {&net});
  EXPECT_ERROR(io::load_torch_training(path, {&net, &sgd}), IoError,
               "run.pth: has neither an entry optimizer nor optimizer_state_dict");
  EXPECT_ERROR(io::load_torch_training(path, {&other}), Error, "weight");
  optim::ReduceLROnPlateau plateau(sgd);
  EXPECT_ERROR(io::save_torch_training(path, {&net, &sgd, &plateau}), Error,
               "save_torch_training: a ReduceLROnPlateau has no state with the same fields");
  EXPECT_ERROR(io::save_torch_training("/nowhere/x.pth", {&net}), IoError, "/nowhere/x.pth");
  EXPECT_ERROR(io::save_torch_training(path, {&net}, {{"model", std::string("mlp")}}), Error,
               "save_torch_training: the metadata have an entry model");
}

/// A file whose optimizer does not fit changes neither the model nor the schedule.
TEST(TorchTraining, AFailureChangesNothing) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "run.pth";
  nn::Linear saved(3, 2), net(3, 2), wider(4, 2);
  optim::Adam other(wider.parameters(), {.lr = 0.1}), adam(net.parameters(), {.lr = 0.3});
  wider(ones({1, 4})).sum().backward();
  other.step();
  optim::StepLR of_other(other, {.step_size = 1}), schedule(adam, {.step_size = 1});
  of_other.step();
  io::save_torch_training(path, {&saved, &other, &of_other});
  const Tensor before = net.weight.clone();
  EXPECT_THROW(io::load_torch_training(path, {&net, &adam, &schedule}), Error);
  EXPECT_TRUE(test::identical(net.weight, before));
  EXPECT_EQ(schedule.last_step(), 0);
  EXPECT_EQ(adam.lr(), 0.3);
}

/// Optimizers without state, and options of several groups.
TEST(TorchTraining, GroupsAndNoState) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "run.pth";
  nn::Linear net(3, 2);
  const auto make = [&](double first, double second) {
    return optim::SGD({{.params = {net.weight}, .options = {.lr = first}},
                       {.params = {net.bias}, .options = {.lr = second}}});
  };
  optim::SGD saved = make(0.1, 0.2);
  io::save_torch_training(path, {.optimizer = &saved});
  optim::SGD loaded = make(3, 3);
  io::load_torch_training(path, {.optimizer = &loaded});
  EXPECT_EQ(loaded.lr(0), 0.1);
  EXPECT_EQ(loaded.lr(1), 0.2);
  optim::SGD one(net.parameters(), {.lr = 0.1});
  EXPECT_ERROR(io::load_torch_training(path, {.optimizer = &one}), IoError,
               "optimizer has 2 parameter groups, but the optimizer has 1");
}

TEST(TorchTraining, RefusesWhatPyTorchKeepsInAnotherForm) {
  const test::TemporaryFolder folder;
  nn::Linear net(2, 2, {.bias = false});
  optim::LBFGS lbfgs(net.parameters());
  optim::Muon muon(net.parameters());
  for (optim::Optimizer* optimizer :
       {static_cast<optim::Optimizer*>(&lbfgs), static_cast<optim::Optimizer*>(&muon)})
    EXPECT_ERROR(io::save_torch_training(folder / "run.pth", {&net, optimizer}), Error,
                 concat("save_torch_training: ", optimizer->type(), " has no state"));
  EXPECT_EQ(folder.count(), 0);
  optim::SGD sgd(net.parameters());
  io::save_torch_training(folder / "sgd.pth", {&net, &sgd});
  EXPECT_ERROR(io::load_torch_training(folder / "sgd.pth", {&net, &muon}), Error,
               "load_torch_training: Muon has no state");
}

}  // namespace
}  // namespace rondo
