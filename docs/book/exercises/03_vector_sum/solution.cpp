// Eight sums that do not wait for each other, as the lanes of a vector.
#include <array>

#include "exercise.h"

Number sum(const Number* x, std::int64_t n) {
  constexpr std::int64_t lanes = 8;
  std::array<Number, lanes> lane;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::int64_t k = 0; k < lanes; ++k) lane[k] = lane[k] + x[i + k];
  for (std::int64_t k = 0; i < n; ++i, ++k) lane[k] = lane[k] + x[i];  // the remainder
  for (std::int64_t width = lanes / 2; width > 0; width /= 2)
    for (std::int64_t k = 0; k < width; ++k) lane[k] = lane[k] + lane[k + width];
  return lane[0];
}
