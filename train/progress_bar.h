#pragma once
// ProgressBar: one line on the terminal with the progress of a loop, its speed, and the remaining
// time.
//
//   epoch 3/12 [=========>          ] 46%  1034 img/s  0:25 left  loss 0.8123
//
// On a terminal the line is rewritten in place, at most ten times per second. Otherwise (a log
// file, a pipe) a line is written at every tenth of the work, so that logs stay short. mpirun gives
// its ranks a terminal even if its own output goes to a file; set TERM=dumb in that case
// (scripts/train.sh does).

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

namespace rondo::train {

/// "1:05", "2:03:04".
std::string format_duration(double seconds);
/// "1234", "0.25": no decimals from 10 on.
std::string format_rate(double per_second);

class ProgressBar {
 public:
  /// `total`: the number of items; `unit`: their name ("img"); `out` null: silent.
  ProgressBar(std::ostream* out, std::string title, std::int64_t total, std::string unit);
  /// Clears the line if it was not finished.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `done`: the completed items; `text` is shown at the end of the line.
  void update(std::int64_t done, const std::string& text);
  /// Items per second since construction.
  double rate() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(std::int64_t done, const std::string& text) const;

  std::ostream* out_;
  std::string title_, unit_;
  std::int64_t total_, done_ = 0, next_tenth_ = 1;
  bool in_place_;
  std::size_t width_ = 0;
  Clock::time_point start_ = Clock::now(), shown_{};
};

}  // namespace rondo::train
