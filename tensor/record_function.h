#pragma once
// RecordFunction: a stretch of time with a name, for the profiler (train/profiler.h).
//
//   {
//     const RecordFunction range("augment");
//     ...
//   }
//
// rondo opens such ranges itself: around each op, each module's forward, each node of the tape, the
// optimizer's step, the making of a batch, a collective. While nobody profiles, a range costs one
// relaxed load and allocates nothing.
//
// Note [Recording]
// Each thread writes into a log of its own, so threads that are profiled together do not wait for
// each other; the log's mutex is taken by its own thread, and once by who collects the logs. An
// event is entered when its range opens: parents come before their children, and events are in the
// order of their beginnings, as readers want them. A range outlives its recording now and then (a
// worker that is in the middle of a batch): it then knows by its number that its log has gone on to
// other things, and leaves it alone.
//
// Note [What counts as an op]
// Users think of layer_norm, not of the eight kernels that it is composed of, and of "conv2d
// backward", not of its two convolutions. So an op is the outermost one: ops and kernels inside of
// another op, a backward node, the optimizer's step or the making of a batch add their arithmetic
// and memory to it and are no events of their own, unless RecordingOptions::nested says so.
//
// Read next: observed_backend.h, which sees every kernel; train/profiler.h, which adds it all up.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

/// Whose time it is.
enum class EventKind : std::uint8_t {
  root,           // the whole recording, on the thread that started it
  range,          // a user's, or a loop's
  module,         // a module's forward; name is its path in the model
  op,             // of tensors, outside of backward
  tape,           // a run of the tape
  backward,       // of one node; name is its op's
  optimizer,      // a step
  data,           // a batch is made, or waited for
  communication,  // a collective is waited for
};

struct ProfileEvent {
  std::string_view name;    // lives as long as its Recorded
  std::string_view module;  // of a backward: where in the model its op was called; or empty
  std::string_view
      shapes;  // of the operands, "(128, 16, 32, 32) f32, (16, 16, 3, 3) f32"; or empty
  EventKind kind = EventKind::range;
  std::int32_t parent = -1;         // its number in the thread's events; -1: none
  std::int64_t begin = 0, end = 0;  // nanoseconds of std::chrono::steady_clock
  std::int64_t device_ns = 0;       // of its kernels on a GPU, where they are timed
  double flops = 0, bytes = 0;      // of its kernels
};

struct RecordingOptions {
  /// Keep the shapes of the operands of each op.
  bool record_shapes = false;
  /// Ops and kernels inside of other ops are events, too.
  bool nested = false;
  /// Of each thread so many events are kept, some 100 bytes each; later ones are counted, not kept.
  std::size_t max_events = 1'000'000;
};

/// What one thread did.
struct RecordedThread {
  std::string name;  // "main", "data loader", "communication", or "thread 3"
  int id = 0;        // from 0, in the order in which threads were first seen in the recording
  std::vector<ProfileEvent> events;   // in the order of their beginnings
  std::int64_t dropped = 0;           // events beyond max_events
  std::shared_ptr<const void> names;  // keeps what the events' names point to
};

/// Starts recording on all threads; the calling thread's first event is the root, "profile". Throws
/// Error where a recording is going on: there is one at a time in a process.
void start_recording(const RecordingOptions& options);
/// Ends it, the ranges that are still open ending now, and gives what was recorded, the thread that
/// started it first. Throws Error where nothing is being recorded.
std::vector<RecordedThread> stop_recording();

namespace detail {
extern std::atomic<bool> recording;
class ThreadLog;
}  // namespace detail

/// Whether a recording is going on. One relaxed load: what must be seen of a recording that has
/// just begun is under the log's mutex.
inline bool is_recording() { return detail::recording.load(std::memory_order_relaxed); }

class RecordFunction {
 public:
  /// Opens nothing: `open` may.
  RecordFunction() = default;
  explicit RecordFunction(std::string_view name, EventKind kind = EventKind::range) {
    if (is_recording()) open(name, kind);
  }
  ~RecordFunction() {
    if (log_ != nullptr) close();
  }
  RecordFunction(const RecordFunction&) = delete;
  RecordFunction& operator=(const RecordFunction&) = delete;

  /// For names that cost something to make: if (is_recording()) range.open(…). Once.
  void open(std::string_view name, EventKind kind, std::string_view module = {});

 private:
  void close() noexcept;

  std::shared_ptr<detail::ThreadLog> log_;
  std::uint64_t recording_ = 0;
  std::int32_t event_ = -1;
};

/// In an op: const RecordOp op("layer_norm"). Note [What counts as an op].
struct RecordOp : RecordFunction {
  explicit RecordOp(std::string_view name) : RecordFunction(name, EventKind::op) {}
};

/// What recordings call the calling thread.
void set_thread_name(const std::string& name);

/// Around a kernel (observed_backend.cpp), while something is recorded: an op of its own, or a part
/// of the one that is open.
class RecordKernel {
 public:
  struct Work {
    double flops = 0, bytes = 0;  // arithmetic, and memory that is read or written
  };
  /// `nanoseconds` of a GPU, which are known later; waits for them.
  using Timer = std::function<std::int64_t()>;

  RecordKernel(std::string_view name, Work work);
  ~RecordKernel();
  RecordKernel(const RecordKernel&) = delete;
  RecordKernel& operator=(const RecordKernel&) = delete;

  /// Whether its event has no shapes yet and should.
  bool wants_shapes() const { return wants_shapes_; }
  void set_shapes(std::string_view shapes);
  void set_timer(Timer timer);

 private:
  std::shared_ptr<detail::ThreadLog> log_;
  std::uint64_t recording_ = 0;
  std::int32_t event_ = -1;  // its own, or that of the op that it is part of
  bool is_event_ = false, wants_shapes_ = false;
};

}  // namespace rondo
