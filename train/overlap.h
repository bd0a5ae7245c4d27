#pragma once
// Overlap: how much of a data-parallel run's communication was hidden behind backward.
//
// DDP knows of each step when its buckets were being added up over the ranks, and when backward had
// nothing more to compute (dist::StepTimeline). What lies before that moment costs nothing; what
// lies after it is waited for. On a GPU the host knows none of it (train/trace.h).

#include <cstdint>

#include "dist/data_parallel/ddp.h"

namespace rondo::train {

struct Overlap {
  std::int64_t steps = 0;
  // Milliseconds, of all these steps together.
  double backward_ms = 0;       // from the first gradient to the end of backward's computing
  double communication_ms = 0;  // while at least one bucket was under way
  double hidden_ms = 0;         // of these: before the end of backward's computing
  double exposed_ms = 0;        // from there until all was averaged
  dist::StepTimeline last;      // the last step's, to be drawn

  void add(const dist::StepTimeline& step);
  /// Of the communication, 0 to 1.
  double hidden_share() const { return communication_ms > 0 ? hidden_ms / communication_ms : 0; }
};

}  // namespace rondo::train
