// Counts weights only.
#include "exercise.h"

std::int64_t parameters_of_linear(std::int64_t in, std::int64_t out, bool) { return in * out; }

std::int64_t parameters_of_conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                std::int64_t, bool) {
  return in * out * kernel * kernel;
}

std::int64_t parameters_of_batch_norm(std::int64_t) { return 0; }

std::int64_t parameters_of_resnet(std::int64_t) { return 0; }
