#pragma once
// A model whose result could depend in every way on the ranks that compute it, and a short
// reproducible training of it.

#include <gtest/gtest.h>

#include "dist/data_parallel/reproducible.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/dropout.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/ddp_checks.h"
#include "tensor/creation.h"

namespace rondo::test {

/// Convolution, batch norm, dropout, a linear layer; with the same weights in every call.
inline nn::AnyModule convnet_with_noise(double dropout) {
  nn::Sequential net(nn::Conv2d(3, 8, 3, {.padding = 1}), nn::BatchNorm2d(8), nn::ReLU(),
                     nn::Flatten(), nn::Dropout(dropout), nn::Linear(8 * 6 * 6, 10));
  set_weights(net, 11);  // ranks that are threads share the default generator
  return nn::AnyModule(std::move(net));
}

/// Parameters, buffers and the last loss after three steps, as exact bits.
inline std::string train_reproducibly(std::shared_ptr<dist::Communicator> comm,
                                      dist::ReproducibleOptions options, double dropout) {
  constexpr std::int64_t batch = 32;
  nn::AnyModule model = convnet_with_noise(dropout);
  if (dropout > 0) manual_seed(5);
  optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  dist::ReproducibleDataParallel parallel(model, comm, options);
  const std::int64_t part = batch / comm->world_size();
  double loss = 0;
  for (std::uint64_t step = 0; step < 3; ++step) {
    Generator numbers(100 + step);
    const Tensor x = randn({batch, 3, 6, 6}, {}, numbers),
                 y = randint(0, 10, {batch}, {.dtype = i64}, numbers);
    sgd.zero_grad();
    loss = parallel.backward(x.narrow(0, part * comm->rank(), part),
                             y.narrow(0, part * comm->rank(), part));
    sgd.step();
  }
  std::string bits(reinterpret_cast<const char*>(&loss), sizeof loss);
  for (const auto& [name, tensor] : model.state_dict())
    bits.append(static_cast<const char*>(tensor.data_ptr()),
                static_cast<std::size_t>(tensor.nbytes()));
  return bits;
}

}  // namespace rondo::test
