// Panel by panel. The kernel then reads one float after another.
#include "exercise.h"

void pack(const float* matrix, std::int64_t depth, std::int64_t columns, float* packed) {
  for (std::int64_t first = 0; first < columns; first += panel)
    for (std::int64_t row = 0; row < depth; ++row)
      for (std::int64_t column = first; column < first + panel; ++column)
        *packed++ = column < columns ? matrix[row * columns + column] : 0;
}
