#pragma once
// Profiler: which ops a step's time goes to, and what they make of the machine (torch.profiler in
// small).
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
// A row of the table is an op as a user calls it: "conv2d", "conv2d backward", "SGD step", "load
// batch", or a range of the user's own (RecordFunction). Its self time is what its children have
// not taken; the self times of the thread that started the recording add up to the recorded time,
// since all that no op explains is there as well, as "other". Beside them: the arithmetic, the
// memory that must travel, and both by the second, to be held against what the machine can do
// (bench/roofline.cpp measures that).
//
// On a GPU self and total are the host's time, which is mostly spent putting work into queues; the
// device column is what the GPU took for the op's kernels, from marks in the stream around each. A
// step that runs as a captured graph has no ops that could be seen.
//
// What is recorded and how: tensor/record_function.h. All ranks' communication: train/trace.h.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tensor/record_function.h"

namespace rondo::train {

/// The part of a training step that an event belongs to.
enum class Phase : std::uint8_t { other, forward, backward, optimizer, data, communication };
const char* name_of(Phase phase);

struct GroupBy {
  bool shapes = false;  // an op with other operands is another row; needs record_shapes
  bool module = false;  // one called elsewhere in the model, too
};

/// All events of one name.
struct KeyAverage {
  std::string name;            // "conv2d backward"; "other": outside of all that has a name
  std::string shapes, module;  // where they were asked for; the model itself has module ""
  EventKind kind = EventKind::op;
  Phase phase = Phase::other;
  /// Whether it is of the thread that started the recording: only those add up to its time.
  bool is_main = true;
  std::int64_t calls = 0;
  double self_ms = 0;    // without what is inside
  double total_ms = 0;   // with it; an event inside of one of the same row is counted once
  double device_ms = 0;  // of the kernels, on a GPU
  double share = 0;      // of self_ms in the recorded time
  double flops = 0, bytes = 0;

  double average_ms() const { return calls > 0 ? total_ms / static_cast<double>(calls) : 0; }
  /// By the time that its kernels take: the device's where there is one.
  double gflops_per_s() const { return per_ms(flops) * 1e-6; }
  double gb_per_s() const { return per_ms(bytes) * 1e-6; }

 private:
  double per_ms(double amount) const {
    const double ms = device_ms > 0 ? device_ms : total_ms;
    return ms > 0 ? amount / ms : 0;
  }
};

/// What a module of the model took, the modules inside of it left out.
struct ModuleTime {
  std::string path;  // "layer1.0.conv1"; "": the model itself
  std::int64_t calls = 0;
  double forward_ms = 0, backward_ms = 0;
  double flops = 0;
};

struct TableOptions {
  GroupBy group_by = {};
  std::size_t row_limit = 30;  // rows that take the most self time; the rest is one more
};

class Profiler {
 public:
  explicit Profiler(RecordingOptions options = {}) : options_(options) {}
  /// Ends a recording that is going on.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Ends the recording when it goes, unless stop() has.
  class Recording {
   public:
    explicit Recording(Profiler& profiler) : profiler_(&profiler) {}
    Recording(Recording&& other) noexcept : profiler_(std::exchange(other.profiler_, nullptr)) {}
    Recording& operator=(Recording&&) = delete;
    ~Recording();

   private:
    Profiler* profiler_;
  };

  /// Forgets what was recorded before and records all threads from here on. Throws Error where this
  /// or another profiler is recording.
  [[nodiscard]] Recording start();
  /// Throws Error where this one is not.
  void stop();
  bool is_recording() const { return is_recording_; }
  /// A step is over: figures are given by the step. Without it the recording is one.
  void step();

  /// What was recorded, the thread that started first.
  const std::vector<RecordedThread>& threads() const { return threads_; }
  double total_ms() const;
  std::int64_t steps() const { return marks_.empty() ? 1 : std::ssize(marks_); }
  /// Events beyond RecordingOptions::max_events: their time is in what they were part of.
  std::int64_t dropped() const;

  /// Most self time first.
  std::vector<KeyAverage> key_averages(GroupBy group_by = {}) const;
  /// In the order of their first calls.
  std::vector<ModuleTime> modules() const;
  /// Self time of each phase on the thread that started, in milliseconds; they add up to
  /// total_ms().
  std::vector<std::pair<Phase, double>> phases() const;

  /// Rows for people, milliseconds of a step.
  std::string table(const TableOptions& options = {}) const;
  /// For chrome://tracing and ui.perfetto.dev, `rank` as the process. Throws IoError.
  void write_chrome_trace(const std::filesystem::path& path, int rank = 0) const;

 private:
  RecordingOptions options_;
  bool is_recording_ = false;
  std::vector<std::int64_t> marks_;  // the ends of steps
  std::vector<RecordedThread> threads_;
};

namespace detail {
/// A cell of a table: the value with so many digits, or "" for 0, which was not measured.
std::string positive(double value, int digits);
}  // namespace detail

}  // namespace rondo::train
