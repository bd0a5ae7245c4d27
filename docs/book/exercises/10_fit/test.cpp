// Latency and bandwidth from measured times, and the size at which another algorithm is faster.
//
// start fails: the latency of 5 us + 0.001 us a byte is 0
#include <rondo/rondo.h>

#include <cmath>
#include <iostream>

#include "exercise.h"

namespace rd = rondo;

namespace {

/// Times of a line at ten sizes, by turns `error` too long and too short.
std::vector<Point> points_of(const Line& line, double error) {
  std::vector<Point> points;
  double sign = 1;
  for (double bytes = 64; bytes <= 1 << 24; bytes *= 4, sign = -sign)
    points.push_back({bytes, (line.latency + line.per_byte * bytes) * (1 + sign * error)});
  return points;
}

void near(const char* what, double found, double expected, double tolerance) {
  rd::require(std::abs(found - expected) <= tolerance * expected, what, " is ", found,
              " instead of ", expected);
}

int run() {
  const Line line{5, 0.001};
  const Line exact = fit(points_of(line, 0)), noisy = fit(points_of(line, 0.03));
  near("the latency of 5 us + 0.001 us a byte", exact.latency, 5, 1e-6);
  near("the time for a byte of 5 us + 0.001 us a byte", exact.per_byte, 0.001, 1e-6);
  near("with errors of 3 %, the latency", noisy.latency, 5, 0.05);
  near("with errors of 3 %, the time for a byte", noisy.per_byte, 0.001, 0.05);
  near("the crossing of 5 + 0.004 x and 25 + 0.002 x", crossing({5, 0.004}, {25, 0.002}), 10'000,
       1e-6);

  // The figure of chapter 10: 16 ranks, 10 Gbit/s (docs/book/figures/10_crossings.json).
  const Line doubling = fit({{256, 17.052}, {16384, 88.322}, {262144, 1169.666}});
  const Line halving = fit({{256, 28.668}, {16384, 56.546}, {262144, 495.228}});
  const double size = crossing(doubling, halving);
  rd::require(size > 2048 && size < 16384, "halving is faster than doubling above ", size,
              " bytes; the figure says: above about 4,000");
  std::cout << "halving is faster than doubling above " << std::lround(size) << " bytes\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
