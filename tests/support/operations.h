#pragma once
// Collective algorithms without a communicator, to test each of them alone.

#include <gtest/gtest.h>

#include <algorithm>

#include "dist/collectives/idle.h"
#include "dist/collectives/reduce.h"
#include "dist/transports/transport.h"

namespace rondo::test {

inline void drive(dist::Operation& operation) {
  auto deadline = dist::Clock::now() + std::chrono::seconds(60);
  for (dist::Idle idle;;) {
    dist::Poll poll = operation.poll();
    if (poll == dist::Poll::done) return;
    if (idle.should_give_way(poll != dist::Poll::idle, 1)) idle.give_way(dist::Clock::now());
    ASSERT_LT(dist::Clock::now(), deadline) << operation.waiting_for();
  }
}

// Small integers: exact in every dtype, also as sums and products over five ranks.
template <class T>
T value(int rank, std::int64_t i, dist::ReduceOp op) {
  if (op == dist::ReduceOp::prod) return T(static_cast<float>(1 + (i + rank) % 2));
  return T(static_cast<float>((i * 7 + rank * 3) % 11));
}

template <class T>
double expected(int ranks, std::int64_t i, dist::ReduceOp op) {
  double result = static_cast<double>(value<T>(0, i, op));
  for (int r = 1; r < ranks; ++r) {
    double v = static_cast<double>(value<T>(r, i, op));
    if (op == dist::ReduceOp::sum || op == dist::ReduceOp::avg) result += v;
    if (op == dist::ReduceOp::prod) result *= v;
    if (op == dist::ReduceOp::min) result = std::min(result, v);
    if (op == dist::ReduceOp::max) result = std::max(result, v);
  }
  return op == dist::ReduceOp::avg ? result / ranks : result;
}

}  // namespace rondo::test
