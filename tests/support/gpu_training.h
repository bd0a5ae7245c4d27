#pragma once
// A small network and its training, for the tests of tests/train/cuda.

#include <gtest/gtest.h>

#include <optional>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/dropout.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "optim/adam.h"
#include "optim/lr_schedule.h"
#include "optim/sgd.h"
#include "support/ddp_checks.h"
#include "tensor/cuda/stream.h"
#include "train/step.h"

namespace rondo::test {

inline nn::Sequential network(double dropout) {
  return nn::Sequential(nn::Conv2d(3, 8, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(8),
                        nn::ReLU(), nn::Conv2d(8, 6, 3, {.stride = 2}), nn::ReLU(), nn::Flatten(),
                        nn::Dropout(dropout), nn::Linear(6 * 2 * 2, 4));
}

inline data::Batch image_batch(int k, std::int64_t n = 8) {
  Generator generator(100 + static_cast<std::uint64_t>(k));
  return {randn({n, 3, 6, 6}, {}, generator), randint(0, 4, {n}, {.dtype = i64}, generator)};
}

inline std::unique_ptr<optim::Optimizer> optimizer_of(int kind, nn::Module& model) {
  if (kind == 0)
    return std::make_unique<optim::SGD>(
        model.parameters(),
        optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
  return std::make_unique<optim::AdamW>(model.parameters(), optim::AdamWOptions{.lr = 0.01});
}

struct Trained {
  std::vector<double> losses;
  nn::StateDict state;
};

inline void expect_same(const Trained& a, const Trained& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * std::abs(a.losses[i])) << "step " << i;
  for (std::size_t i = 0; i < a.state.size(); ++i) {
    const Tensor x = a.state[i].tensor.to(Device::cpu()).to(f64),
                 y = b.state[i].tensor.to(Device::cpu()).to(f64);
    EXPECT_LE((x - y).abs().max().item<double>(), tolerance * (1 + x.abs().max().item<double>()))
        << a.state[i].name;
  }
}

/// 12 steps with a schedule; the seventh has a smaller batch.
inline Trained trained(Device device, int kind, bool graph, double dropout = 0.3,
                       std::shared_ptr<dist::Communicator> comm = nullptr,
                       std::uint64_t* waits = nullptr, std::optional<DType> amp = {}) {
  manual_seed(3);
  nn::Sequential model = network(dropout);
  set_weights(model, 3);  // from its own generator: threads share the default one
  model.to(device);
  manual_seed(4);
  auto optimizer = optimizer_of(kind, model);
  optim::CosineAnnealingLR schedule(*optimizer, {.t_max = 12});
  std::optional<dist::DistributedDataParallel> ddp;
  if (comm != nullptr) ddp.emplace(model, comm);
  std::optional<optim::GradScaler> scaler;
  if (amp == f16) scaler.emplace(device);
  train::TrainStep step({.model = model,
                         .optimizer = *optimizer,
                         .ddp = ddp ? &*ddp : nullptr,
                         .amp = amp,
                         .scaler = scaler ? &*scaler : nullptr,
                         .graph = graph});
  Trained result;
  const auto before = cuda::synchronizations();
  for (int k = 0; k < 12; ++k) {
    data::Batch batch = image_batch(k, k == 6 ? 5 : 8);
    step({batch.input.to(device), batch.target.to(device)}, {});
    schedule.step();
    for (double loss : step.take_losses()) result.losses.push_back(loss);
  }
  if (waits != nullptr) *waits = cuda::synchronizations() - before;
  for (double loss : step.take_losses(true)) result.losses.push_back(loss);
  result.state = model.state_dict();
  return result;
}

}  // namespace rondo::test
