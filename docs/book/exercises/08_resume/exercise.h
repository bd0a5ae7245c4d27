#pragma once
// What start.cpp and solution.cpp define.

#include <rondo/rondo.h>

#include <cstdint>
#include <vector>

/// Where a run is: the epoch, and the next batch of this epoch. Nothing else is saved.
struct Position {
  std::uint64_t epoch = 0;
  std::int64_t batch = 0;
};

/// Hands out batches of 0 … size-1, in a new order in each epoch.
class Batches {
 public:
  Batches(std::int64_t size, std::int64_t batch_size, std::uint64_t seed);
  /// The next batch. After the last one of an epoch comes the first of the next epoch.
  std::vector<std::int64_t> next();
  Position position() const { return at_; }
  /// From here on, hands out what a run at this position would hand out.
  void resume(Position position);

 private:
  /// A permutation of 0 … size-1.
  std::vector<std::int64_t> shuffled();

  std::int64_t size_, batch_size_;
  [[maybe_unused]] std::uint64_t seed_;  // start.cpp does not use it yet
  rondo::Generator generator_;
  Position at_;
  std::vector<std::int64_t> order_;
};
