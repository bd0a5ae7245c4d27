#pragma once
// RecordFunction: a named time range for the profiler (train/profiler.h).
//
//   {
//     const RecordFunction range("augment");
//     ...
//   }
//
// rondo itself opens such ranges: around each op, each module's forward, each node of the tape, the
// optimizer's step, the creation of a batch, and each collective. While no recording runs, a range
// costs one relaxed load and allocates nothing.
//
// Note [Recording]
// Each thread writes into its own log, so profiled threads do not wait for each other. Only the
// thread itself takes its log's mutex, and once the thread that collects the logs. An event is
// added when its range opens. So parents come before their children, and events are ordered by
// their begin, as readers want them. A range may outlive its recording (in a worker that is in the
// middle of a batch). It then sees from the recording's number that its log belongs to another
// recording, and leaves the log alone.
//
// Note [What counts as an op]
// Users think of layer_norm, not of the eight kernels that compose it, and of "conv2d backward",
// not of its two convolutions. So only the outermost op counts as an op. Ops and kernels inside
// another op, a backward node, the optimizer's step or the creation of a batch add their arithmetic
// and memory to it. They are separate events only with RecordingOptions::nested.
//
// Read next: kernel_call.h, which records every kernel; train/profiler.h, which sums up the
// events.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/recording.h"

namespace rondo {

/// The kind of work that the time belongs to.
enum class EventKind : std::uint8_t {
  root,           // the whole recording, on the thread that started it
  range,          // opened by the user or by a loop
  module,         // a module's forward; name is its path in the model
  op,             // an op on tensors, outside of backward
  tape,           // a run of the tape
  backward,       // the backward of one node; name is its op's
  optimizer,      // an optimizer step
  data,           // a batch is created or waited for
  communication,  // a collective is waited for
};

struct ProfileEvent {
  std::string_view name;    // valid while its RecordedThread exists
  std::string_view module;  // for backward: the module whose op it is; or empty
  std::string_view
      shapes;  // of the operands, "(128, 16, 32, 32) f32, (16, 16, 3, 3) f32"; or empty
  EventKind kind = EventKind::range;
  std::int32_t parent = -1;         // the parent's index in the thread's events; -1: none
  std::int64_t begin = 0, end = 0;  // nanoseconds of std::chrono::steady_clock
  std::int64_t device_ns = 0;       // time of its kernels on a GPU, if they are timed
  double flops = 0, bytes = 0;      // of its kernels
  std::int64_t live_bytes = 0;      // of the CPU's memory in use at its end; 0: not recorded
};

struct RecordingOptions {
  /// Store the shapes of each op's operands.
  bool record_shapes = false;
  /// Store how much of the CPU's memory is in use at the end of each event.
  bool profile_memory = false;
  /// Ops and kernels inside other ops are events, too.
  bool nested = false;
  /// The maximum number of events to keep for each thread, about 100 bytes each. Later events are
  /// counted, but not kept.
  std::size_t max_events = 1'000'000;
};

/// The events of one thread.
struct RecordedThread {
  std::string name;  // "main", "data loader", "communication", or "thread 3"
  int id = 0;        // from 0, in the order in which the recording first saw the threads
  std::vector<ProfileEvent> events;   // ordered by their begin
  std::int64_t dropped = 0;           // events beyond max_events
  std::shared_ptr<const void> names;  // keeps the events' names alive
};

/// Starts recording on all threads. The calling thread's first event is the root, "profile". Throws
/// Error if a recording is already running: a process has at most one at a time.
void start_recording(const RecordingOptions& options);
/// Ends the recording, closes all open ranges now, and returns the recorded threads, first the
/// thread that started the recording. Throws Error if nothing is being recorded.
std::vector<RecordedThread> stop_recording();

namespace detail {
class ThreadLog;
}  // namespace detail

class RecordFunction {
 public:
  /// Opens no range; `open` can open it later.
  RecordFunction() = default;
  explicit RecordFunction(std::string_view name, EventKind kind = EventKind::range) {
    if (is_recording()) open(name, kind);
  }
  ~RecordFunction() {
    if (log_ != nullptr) close();
  }
  RecordFunction(const RecordFunction&) = delete;
  RecordFunction& operator=(const RecordFunction&) = delete;

  /// For names that are expensive to build: if (is_recording()) range.open(…). Call it once.
  void open(std::string_view name, EventKind kind, std::string_view module = {});

 private:
  void close() noexcept;

  std::shared_ptr<detail::ThreadLog> log_;
  std::uint64_t recording_ = 0;
  std::int32_t event_ = -1;
};

/// In an op that is one kernel or a view: const OpName op("select"). Errors begin with the name of
/// the outermost op, which is the one that the user called (detail::message in error.cpp). The name
/// must be a string that lives as long as the program: errors of kernels on a GPU use it later.
class OpName {
 public:
  explicit OpName(const char* name) : outer_(outermost_) {
    if (outer_ == nullptr) outermost_ = name;
  }
  ~OpName() { outermost_ = outer_; }
  OpName(const OpName&) = delete;
  OpName& operator=(const OpName&) = delete;

  /// The op that the user called on this thread; `kernel` if none is running. Errors of kernels
  /// that several ops use name it: embedding, not index_select.
  static const char* called(const char* kernel) {
    return outermost_ != nullptr ? outermost_ : kernel;
  }

 private:
  static inline thread_local constinit const char* outermost_ = nullptr;
  const char* outer_;
};

/// In an op of several kernels: const OpRange op("layer_norm"). Note [What counts as an op].
class OpRange : public RecordFunction {
 public:
  explicit OpRange(const char* name) : RecordFunction(name, EventKind::op), name_(name) {}

 private:
  OpName name_;
};

/// Sets the calling thread's name in recordings.
void set_thread_name(const std::string& name);

/// Records a kernel (kernel_call.cpp) while a recording runs: as an event of its own, or as
/// part of the open op.
class RecordKernel {
 public:
  struct Work {
    double flops = 0, bytes = 0;  // arithmetic operations; bytes read and written
  };
  /// Returns the GPU's nanoseconds, which are known only later; waits for them.
  using Timer = std::function<std::int64_t()>;

  RecordKernel(std::string_view name, Work work);
  ~RecordKernel();
  RecordKernel(const RecordKernel&) = delete;
  RecordKernel& operator=(const RecordKernel&) = delete;

  /// Whether its event should have shapes and has none yet.
  bool wants_shapes() const { return wants_shapes_; }
  void set_shapes(std::string_view shapes);
  void set_timer(Timer timer);

 private:
  std::shared_ptr<detail::ThreadLog> log_;
  std::uint64_t recording_ = 0;
  std::int32_t event_ = -1;  // its own event, or that of the op it is part of
  bool is_event_ = false, wants_shapes_ = false;
};

/// Adds a word to the shapes of the innermost open event of the calling thread, if shapes are
/// recorded:
/// "(…) f32, (…) f32 by winograd".
void record_detail(std::string_view detail);

}  // namespace rondo
