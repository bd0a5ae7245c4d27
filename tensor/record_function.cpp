#include "tensor/record_function.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "tensor/cpu/allocator.h"
#include "tensor/error.h"

namespace rondo {
namespace detail {

std::atomic<bool> recording{false};

/// Note [Recording]. The data guarded by `mutex` is written by the log's own thread, and by
/// stop_recording, which takes all of it.
class ThreadLog {
 public:
  using Names = std::unordered_set<std::string>;

  std::mutex mutex;
  std::uint64_t recording = 0;  // 0: not part of a recording
  RecordingOptions options;
  RecordedThread thread;
  std::shared_ptr<Names> names;
  std::int32_t open = -1;  // the innermost range
  std::vector<std::pair<std::int32_t, RecordKernel::Timer>> timers;

  std::string_view keep(std::string_view text) {
    return text.empty() ? std::string_view() : *names->emplace(text).first;
  }
  ProfileEvent& at(std::int32_t event) { return thread.events[static_cast<std::size_t>(event)]; }

  /// The index of a new event inside the innermost open one; -1 if the log is full.
  std::int32_t enter(std::string_view name, EventKind kind) {
    if (thread.events.size() >= options.max_events) {
      ++thread.dropped;
      return -1;
    }
    ProfileEvent& event = thread.events.emplace_back();
    event.name = keep(name);
    event.kind = kind;
    event.parent = open;
    return open = static_cast<std::int32_t>(thread.events.size()) - 1;
  }
  /// Ends the event and all events that are still open inside it. Their own end then does nothing.
  void leave(std::int32_t event, std::int64_t now) {
    if (at(event).end != 0) return;
    if (options.profile_memory)
      at(event).live_bytes =
          static_cast<std::int64_t>(cpu::CachingAllocator::instance().stats().in_use);
    for (bool is_it = false; !is_it; open = at(open).parent) {
      is_it = open == event;
      at(open).end = now;
    }
  }
  /// Whether an op that begins now is part of another one: Note [What counts as an op].
  bool is_inside_op() {
    if (options.nested || open < 0) return false;
    switch (at(open).kind) {
      case EventKind::op:
      case EventKind::backward:
      case EventKind::optimizer:
      case EventKind::data:
      case EventKind::communication:
        return true;
      default:
        return false;
    }
  }
};

}  // namespace detail

namespace {

using detail::ThreadLog;

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Locked before any log's mutex.
struct LogRegistry {
  std::mutex mutex;
  std::uint64_t recording = 0, last = 0;  // the number of the current recording, or 0
  RecordingOptions options;
  std::vector<std::shared_ptr<ThreadLog>> logs;  // the logs of the current recording
};
LogRegistry& registry() {
  static auto* all = new LogRegistry;  // threads may end after main returns
  return *all;
}

thread_local std::string thread_name;

const std::shared_ptr<ThreadLog>& own_log() {
  thread_local const auto log = std::make_shared<ThreadLog>();
  return log;
}

/// Adds a log to the current recording, if there is one.
void join(const std::shared_ptr<ThreadLog>& log) {
  LogRegistry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.recording == 0) return;
  const std::lock_guard own(log->mutex);
  log->recording = all.recording;
  log->options = all.options;
  log->names = std::make_shared<ThreadLog::Names>();
  log->thread = {.name = thread_name, .id = static_cast<int>(all.logs.size())};
  log->thread.names = log->names;
  log->open = -1;
  if (log->thread.name.empty())
    log->thread.name = log->thread.id == 0 ? "main" : concat("thread ", log->thread.id);
  all.logs.push_back(log);
}

/// The calling thread's log, locked and part of the recording; null if nothing is recorded.
std::pair<std::shared_ptr<ThreadLog>, std::unique_lock<std::mutex>> lock_own_log() {
  const std::shared_ptr<ThreadLog>& log = own_log();
  std::unique_lock lock(log->mutex);
  if (log->recording == 0) {
    lock.unlock();
    join(log);
    lock.lock();
  }
  if (log->recording == 0) return {};
  return {log, std::move(lock)};
}

}  // namespace

void start_recording(const RecordingOptions& options) {
  LogRegistry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    require(all.recording == 0, "profiler: a recording is already running; stop it first");
    all.recording = ++all.last;
    all.options = options;
  }
  join(own_log());
  const auto& log = own_log();
  const std::lock_guard lock(log->mutex);
  const std::int32_t root = log->enter("profile", EventKind::root);
  detail::recording.store(true, std::memory_order_relaxed);
  if (root >= 0) log->at(root).begin = now();
}

std::vector<RecordedThread> stop_recording() {
  detail::recording.store(false, std::memory_order_relaxed);
  std::vector<std::shared_ptr<ThreadLog>> logs;
  {
    LogRegistry& all = registry();
    const std::lock_guard lock(all.mutex);
    require(all.recording != 0, "profiler: nothing is being recorded; start it first");
    all.recording = 0;
    logs = std::exchange(all.logs, {});
  }
  std::vector<RecordedThread> threads;
  for (const auto& log : logs) {
    std::vector<std::pair<std::int32_t, RecordKernel::Timer>> timers;
    {
      const std::lock_guard lock(log->mutex);
      const std::int64_t end = now();  // later than all events of this thread
      while (log->open >= 0) log->leave(log->open, end);
      log->recording = 0;
      log->names.reset();
      threads.push_back(std::exchange(log->thread, {}));
      timers = std::exchange(log->timers, {});
    }
    for (const auto& [event, nanoseconds] : timers)
      threads.back().events[static_cast<std::size_t>(event)].device_ns += nanoseconds();
  }
  return threads;
}

void set_thread_name(const std::string& name) { thread_name = name; }

void RecordFunction::open(std::string_view name, EventKind kind, std::string_view module) {
  const auto [log, lock] = lock_own_log();
  if (log == nullptr || (kind == EventKind::op && log->is_inside_op())) return;
  event_ = log->enter(name, kind);
  if (event_ < 0) return;
  log_ = log;
  recording_ = log->recording;
  log->at(event_).module = log->keep(module);
  log->at(event_).begin = now();
}

void RecordFunction::close() noexcept {
  const std::int64_t end = now();
  const std::lock_guard lock(log_->mutex);
  if (log_->recording == recording_) log_->leave(event_, end);
}

RecordKernel::RecordKernel(std::string_view name, Work work) {
  const auto [log, lock] = lock_own_log();
  if (log == nullptr) return;
  is_event_ = !log->is_inside_op();
  event_ = is_event_ ? log->enter(name, EventKind::op) : log->open;
  if (event_ < 0) return;
  log_ = log;
  recording_ = log->recording;
  ProfileEvent& event = log->at(event_);
  event.flops += work.flops;
  event.bytes += work.bytes;
  wants_shapes_ = log->options.record_shapes && event.shapes.empty();
  if (is_event_) event.begin = now();
}

RecordKernel::~RecordKernel() {
  if (log_ == nullptr || !is_event_) return;
  const std::int64_t end = now();
  const std::lock_guard lock(log_->mutex);
  if (log_->recording == recording_) log_->leave(event_, end);
}

void RecordKernel::set_shapes(std::string_view shapes) {
  const std::lock_guard lock(log_->mutex);
  if (log_->recording == recording_) log_->at(event_).shapes = log_->keep(shapes);
}

void RecordKernel::set_timer(Timer timer) {
  if (log_ == nullptr) return;
  const std::lock_guard lock(log_->mutex);
  if (log_->recording == recording_) log_->timers.emplace_back(event_, std::move(timer));
}

void record_detail(std::string_view detail) {
  const auto [log, lock] = lock_own_log();
  if (log == nullptr || !log->options.record_shapes || log->open < 0) return;
  ProfileEvent& event = log->at(log->open);
  event.shapes = log->keep(concat(event.shapes, " by ", detail));
}

}  // namespace rondo
