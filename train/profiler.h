#pragma once
// Profiler: how much time each op of a step takes, and how well it uses the machine (a small
// torch.profiler).
//
//   train::Profiler profiler;
//   {
//     const auto recording = profiler.start();
//     for (int i = 0; i < 10; ++i) {
//       step();
//       profiler.step();
//     }
//   }
//   std::cout << profiler.table();
//   profiler.write_chrome_trace("trace.json");
//
// A row of the table is an op as the user calls it: "conv2d", "conv2d backward", "SGD step", "load
// batch", or a user's own range (RecordFunction). Its self time excludes its children. The self
// times of the thread that started the recording add up to the recorded time: time outside all ops
// is the row "other". The table also shows the arithmetic operations, the memory traffic, and both
// per second, to compare with the peak of the machine (bench/roofline.cpp measures it).
//
// On a GPU, self and total are times of the host, which mostly puts work into queues. The device
// column is the time of the op's kernels, measured by events in the stream around each op. A step
// that runs as a captured graph shows no ops.
//
// How events are recorded: tensor/record_function.h. Communication of all ranks: train/trace.h.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor/record_function.h"

namespace rondo::train {

/// The part of a training step that an event belongs to.
enum class Phase : std::uint8_t { other, forward, backward, optimizer, data, communication };
const char* name_of(Phase phase);

struct GroupBy {
  bool shapes = false;  // one row per combination of operand shapes; needs record_shapes
  bool module = false;  // one row per calling module of the model, too
};

/// All events of one name.
struct KeyAverage {
  std::string name;            // "conv2d backward"; "other": time outside all named events
  std::string shapes, module;  // if requested; the model itself has module ""
  EventKind kind = EventKind::op;
  Phase phase = Phase::other;
  /// Whether the event is on the thread that started the recording. Only those add up to the
  /// recorded time.
  bool is_main = true;
  std::int64_t calls = 0;
  double self_ms = 0;    // without children
  double total_ms = 0;   // with children; an event inside an event of the same row is counted once
  double device_ms = 0;  // of the kernels, on a GPU
  double share = 0;      // of self_ms in the recorded time
  double flops = 0, bytes = 0;

  double average_ms() const { return calls > 0 ? total_ms / static_cast<double>(calls) : 0; }
  /// Per second of the kernels' time: the device's if there is one, else the total.
  double gflops_per_s() const { return per_ms(flops) * 1e-6; }
  double gb_per_s() const { return per_ms(bytes) * 1e-6; }

 private:
  double per_ms(double amount) const {
    const double ms = device_ms > 0 ? device_ms : total_ms;
    return ms > 0 ? amount / ms : 0;
  }
};

/// The time in a module of the model, without its submodules.
struct ModuleTime {
  std::string path;  // "layer1.0.conv1"; "": the model itself
  std::int64_t calls = 0;
  double forward_ms = 0, backward_ms = 0;
  double flops = 0;
};

struct TableOptions {
  GroupBy group_by = {};
  std::size_t row_limit = 30;  // the rows with the most self time; all others are summed in one row
};

class Profiler {
 public:
  explicit Profiler(RecordingOptions options = {}) : options_(options) {}
  /// Ends a recording in progress.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Ends the recording when it is destroyed, unless stop() was called.
  class Recording {
   public:
    explicit Recording(Profiler& profiler) : profiler_(&profiler) {}
    Recording(Recording&& other) noexcept : profiler_(std::exchange(other.profiler_, nullptr)) {}
    Recording& operator=(Recording&&) = delete;
    ~Recording();

   private:
    Profiler* profiler_;
  };

  /// Discards earlier recordings and records all threads from now on. Throws Error if this or
  /// another profiler is recording.
  [[nodiscard]] Recording start();
  /// Throws Error if this profiler is not recording.
  void stop();
  bool is_recording() const { return is_recording_; }
  /// Marks the end of a step; the table then gives figures per step. Without it, the recording
  /// counts as one step.
  void step();

  /// The recorded threads; the first is the one that started the recording.
  const std::vector<RecordedThread>& threads() const { return threads_; }
  double total_ms() const;
  std::int64_t steps() const { return marks_.empty() ? 1 : std::ssize(marks_); }
  /// Events beyond RecordingOptions::max_events; their time is counted in their parents.
  std::int64_t dropped() const;

  /// Sorted by self time, largest first.
  std::vector<KeyAverage> key_averages(GroupBy group_by = {}) const;
  /// In the order of their first calls.
  std::vector<ModuleTime> modules() const;
  /// Self time of each phase on the thread that started the recording, in milliseconds; the sum is
  /// total_ms().
  std::vector<std::pair<Phase, double>> phases() const;

  /// The table as text, in milliseconds per step.
  std::string table(const TableOptions& options = {}) const;
  /// For chrome://tracing and ui.perfetto.dev, `rank` as the process. Throws IoError.
  void write_chrome_trace(const std::string& path, int rank = 0) const;

 private:
  RecordingOptions options_;
  bool is_recording_ = false;
  std::vector<std::int64_t> marks_;  // the ends of the steps
  std::vector<RecordedThread> threads_;
};

namespace detail {
/// A cell of a table: the value with `digits` decimals, or "" for 0, which means not measured.
std::string positive(double value, int digits);
}  // namespace detail

}  // namespace rondo::train
