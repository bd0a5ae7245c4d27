#pragma once
// ProgressBar: one line on the terminal with the progress of a loop, its speed, and the remaining
// time.
//
//   epoch 3/12 [=========>          ] 46%  1034 img/s  0:25 left  loss 0.8123
//
// On a terminal the line is rewritten in place, at most once per second. Otherwise (a log file, a
// pipe) a line is written at every tenth of the work, so that logs stay short. A launcher such as
// mpirun gives its ranks a terminal even if its own output goes to a file, so its ranks write
// lines, too, unless the user asks for the bar.

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

namespace rondo::train {

/// "1:05", "2:03:04".
std::string format_duration(double seconds);
/// "1234", "0.25": no decimals from 10 on.
std::string format_rate(double per_second);

enum class ProgressStyle : std::uint8_t {
  automatic,  // a bar on a terminal, unless a launcher has started the process; otherwise lines
  bar,        // one line, rewritten in place at most once per second
  lines,      // a line for each tenth
  none,
};
/// For flags: "auto", "bar", "lines" or "none". Throws Error for other texts.
ProgressStyle parse_progress(const std::string& text);

class ProgressBar {
 public:
  /// `total`: the number of items; `unit`: their name ("img"); `out` null: silent.
  ProgressBar(std::ostream* out, std::string title, std::int64_t total, std::string unit,
              ProgressStyle progress = ProgressStyle::automatic);
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
