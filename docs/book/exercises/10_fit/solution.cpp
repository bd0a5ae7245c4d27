// Least squares of the relative errors. With absolute errors, one percent of the largest time would
// be more than the whole latency.
#include "exercise.h"

Line fit(const std::vector<Point>& points) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const auto [x, y] : points) {
    const double weight = 1 / (y * y);
    w += weight;
    wx += weight * x;
    wy += weight * y;
    wxx += weight * x * x;
    wxy += weight * x * y;
  }
  const double per_byte = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return {(wy - per_byte * wx) / w, per_byte};
}

double crossing(const Line& a, const Line& b) {
  return (b.latency - a.latency) / (a.per_byte - b.per_byte);
}
