// A run that ends in the middle of an epoch, and one that resumes from two numbers.
//
// start fails: after a stop in epoch 1, batch 0, the next batch is
#include <rondo/rondo.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "exercise.h"

namespace rd = rondo;

namespace {

std::string text_of(const std::vector<std::int64_t>& batch) {
  std::ostringstream text;
  for (const std::int64_t i : batch) text << i << " ";
  return text.str();
}

int run() {
  constexpr std::int64_t size = 10, batch_size = 4, per_epoch = 3;
  std::vector<std::vector<std::int64_t>> all;  // of four epochs without a stop
  Batches whole(size, batch_size, 7);
  for (int i = 0; i < 4 * per_epoch; ++i) all.push_back(whole.next());

  std::vector<std::int64_t> seen;
  for (int i = 0; i < per_epoch; ++i) seen.insert(seen.end(), all[i].begin(), all[i].end());
  std::ranges::sort(seen);
  for (std::int64_t i = 0; i < size; ++i)
    rd::require(std::ssize(seen) == size && seen[static_cast<std::size_t>(i)] == i,
                "an epoch must hand out each index once");
  rd::require(all[0] != all[per_epoch], "two epochs have the same order");

  for (const int stop : {3, 1, 4, 8}) {
    Batches before(size, batch_size, 7);
    for (int i = 0; i < stop; ++i) before.next();
    const Position at = before.position();
    Batches after(size, batch_size, 7);
    after.resume(at);
    for (int i = stop; i < 4 * per_epoch; ++i) {
      const std::vector<std::int64_t> batch = after.next(), &expected = all[i];
      rd::require(batch == expected, "after a stop in epoch ", at.epoch, ", batch ", at.batch,
                  ", the next batch is ", text_of(batch), "instead of ", text_of(expected));
    }
  }
  std::cout << "a run resumes anywhere, from two numbers\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
