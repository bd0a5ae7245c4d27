// Believes that only bandwidth matters.
#include "exercise.h"

Line fit(const std::vector<Point>& points) {
  const Point& largest = points.back();
  return {0, largest.us / largest.bytes};
}

double crossing(const Line&, const Line&) { return 0; }
