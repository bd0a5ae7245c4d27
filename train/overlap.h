#pragma once
// Overlap: how much of the communication of a data-parallel run was hidden behind backward.
//
// For each step, DDP records when each bucket was all-reduced, and when backward finished computing
// (dist::StepTimeline). Communication before that moment costs nothing; communication after it
// delays the step. On a GPU the host cannot measure this (train/trace.h).

#include <cstdint>

#include "dist/data_parallel/ddp.h"

namespace rondo::train {

struct Overlap {
  std::int64_t steps = 0;
  // Milliseconds, summed over all these steps.
  double backward_ms = 0;       // from the first gradient to the end of backward's computation
  double communication_ms = 0;  // while at least one bucket was in flight
  double hidden_ms = 0;         // of these: before the end of backward's computation
  double exposed_ms = 0;        // from there until all gradients were averaged
  dist::StepTimeline last;      // of the last step, for a diagram

  void add(const dist::StepTimeline& step);
  /// The hidden share of the communication, 0 to 1.
  double hidden_share() const { return communication_ms > 0 ? hidden_ms / communication_ms : 0; }
};

}  // namespace rondo::train
