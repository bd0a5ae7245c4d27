// Counts the elements of weights and biases.
#include <initializer_list>

#include "exercise.h"

std::int64_t parameters_of_linear(std::int64_t in, std::int64_t out, bool bias) {
  return out * in + (bias ? out : 0);
}

std::int64_t parameters_of_conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                std::int64_t groups, bool bias) {
  return out * (in / groups) * kernel * kernel + (bias ? out : 0);
}

std::int64_t parameters_of_batch_norm(std::int64_t channels) {
  return 2 * channels;  // weight and bias; the running mean and variance are buffers
}

std::int64_t parameters_of_resnet(std::int64_t n) {
  std::int64_t total = 0, in = 3;
  const auto conv_and_norm = [&](std::int64_t out) {
    total += parameters_of_conv(in, out, 3, 1, false) + parameters_of_batch_norm(out);
    in = out;
  };
  conv_and_norm(16);
  for (const std::int64_t channels : {16, 32, 64})
    for (std::int64_t i = 0; i < 2 * n; ++i) conv_and_norm(channels);
  return total + parameters_of_linear(64, 10, true);
}
