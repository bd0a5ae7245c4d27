#pragma once
// What start.cpp and solution.cpp define.

#include <vector>

struct Point {
  double bytes, us;  // an all-reduce of so many bytes took so many microseconds
};
/// us = latency + per_byte * bytes.
struct Line {
  double latency = 0, per_byte = 0;
};

/// The line that fits the points best. Each point may be wrong by some percent of its time.
Line fit(const std::vector<Point>& points);

/// The size in bytes above which b is faster than a. a has the smaller latency.
double crossing(const Line& a, const Line& b);
