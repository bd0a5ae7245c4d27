#include "train/profiler.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "dist/launch/host.h"
#include "tensor/error.h"
#include "train/chrome_trace.h"

namespace rondo::train {
namespace {

using Events = std::vector<ProfileEvent>;

double ms(std::int64_t nanoseconds) { return 1e-6 * static_cast<double>(nanoseconds); }

/// For each event: its time without its children.
std::vector<std::int64_t> self_times(const Events& events) {
  std::vector<std::int64_t> self;
  for (const ProfileEvent& event : events) {
    const std::int64_t time = event.end - event.begin;
    self.push_back(time);
    if (event.parent >= 0) self[static_cast<std::size_t>(event.parent)] -= time;
  }
  return self;
}

/// Events with a phase of their own pass it on to their children; other ops and modules are
/// forward.
std::vector<Phase> phases_of(const Events& events) {
  std::vector<Phase> phases;
  for (const ProfileEvent& event : events) {
    const Phase above =
        event.parent < 0 ? Phase::other : phases[static_cast<std::size_t>(event.parent)];
    switch (event.kind) {
      case EventKind::root:
      case EventKind::range:
        phases.push_back(above);
        break;
      case EventKind::module:
      case EventKind::op:
        phases.push_back(above == Phase::other ? Phase::forward : above);
        break;
      case EventKind::tape:
      case EventKind::backward:
        phases.push_back(Phase::backward);
        break;
      case EventKind::optimizer:
        phases.push_back(Phase::optimizer);
        break;
      case EventKind::data:
        phases.push_back(Phase::data);
        break;
      case EventKind::communication:
        phases.push_back(Phase::communication);
        break;
    }
  }
  return phases;
}

/// The module of each event, or null. A module's event names it, and a backward node has the module
/// that recorded it; events inside inherit it.
std::vector<const std::string_view*> modules_of(const Events& events) {
  std::vector<const std::string_view*> modules;
  for (const ProfileEvent& event : events) {
    const std::string_view* above =
        event.parent < 0 ? nullptr : modules[static_cast<std::size_t>(event.parent)];
    modules.push_back(event.kind == EventKind::module     ? &event.name
                      : event.kind == EventKind::backward ? &event.module
                                                          : above);
  }
  return modules;
}

/// The name in the table.
std::string display_name(const ProfileEvent& event) {
  switch (event.kind) {
    case EventKind::root:
      return "other";
    case EventKind::module:
      return "module forward";
    case EventKind::backward:
      // accumulate_grad is the end of the tape and does not belong to an op.
      if (event.name != "accumulate_grad") return concat(event.name, " backward");
      [[fallthrough]];
    default:
      return std::string(event.name);
  }
}

const char* category_of(EventKind kind) {
  switch (kind) {
    case EventKind::root:
      return "profile";
    case EventKind::range:
      return "range";
    case EventKind::module:
      return "module";
    case EventKind::op:
      return "op";
    case EventKind::tape:
    case EventKind::backward:
      return "backward";
    case EventKind::optimizer:
      return "optimizer";
    case EventKind::data:
      return "data";
    case EventKind::communication:
      return "communication";
  }
  return "";
}

}  // namespace

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::other:
      return "other";
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::optimizer:
      return "optimizer";
    case Phase::data:
      return "data";
    case Phase::communication:
      return "communication";
  }
  return "";
}

Profiler::~Profiler() {
  if (is_recording_) const Recording ending(*this);
}

Profiler::Recording::~Recording() {
  if (profiler_ == nullptr || !profiler_->is_recording_) return;
  try {
    profiler_->stop();
  } catch (const std::exception&) {  // the GPU failed; its next use reports it
  }
}

Profiler::Recording Profiler::start() {
  require(options_.max_events > 0, "profiler: max_events is 0, but must be positive");
  start_recording(options_);
  threads_.clear();
  marks_.clear();
  is_recording_ = true;
  return Recording(*this);
}

void Profiler::stop() {
  require(is_recording_, "profiler: stop() without a start()");
  is_recording_ = false;
  threads_ = stop_recording();
}

void Profiler::step() {
  require(is_recording_, "profiler: step() without a start()");
  marks_.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::steady_clock::now().time_since_epoch())
                       .count());
}

double Profiler::total_ms() const {
  return threads_.empty() ? 0 : ms(threads_[0].events[0].end - threads_[0].events[0].begin);
}

std::int64_t Profiler::dropped() const {
  std::int64_t dropped = 0;
  for (const RecordedThread& thread : threads_) dropped += thread.dropped;
  return dropped;
}

std::vector<KeyAverage> Profiler::key_averages(GroupBy group_by) const {
  std::vector<KeyAverage> rows;
  std::map<std::tuple<std::string, EventKind, Phase, bool, std::string, std::string>, std::size_t>
      places;
  for (const RecordedThread& thread : threads_) {
    const Events& events = thread.events;
    const auto self = self_times(events);
    const auto phases = phases_of(events);
    const auto modules = modules_of(events);
    const bool is_main = thread.id == 0;
    std::vector<std::size_t> row_of;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const ProfileEvent& event = events[i];
      std::string shapes = group_by.shapes ? std::string(event.shapes) : "";
      std::string module = group_by.module && modules[i] != nullptr ? std::string(*modules[i]) : "";
      std::string name = display_name(event);
      const auto [place, is_new] = places.emplace(
          std::tuple(name, event.kind, phases[i], is_main, shapes, module), rows.size());
      if (is_new)
        rows.push_back({.name = std::move(name),
                        .shapes = std::move(shapes),
                        .module = std::move(module),
                        .kind = event.kind,
                        .phase = phases[i],
                        .is_main = is_main});
      row_of.push_back(place->second);
      KeyAverage& row = rows[place->second];
      ++row.calls;
      row.self_ms += ms(self[i]);
      row.device_ms += ms(event.device_ns);
      row.flops += event.flops;
      row.bytes += event.bytes;
      bool is_inside_itself = false;
      for (std::int32_t above = event.parent; above >= 0 && !is_inside_itself;
           above = events[static_cast<std::size_t>(above)].parent)
        is_inside_itself = row_of[static_cast<std::size_t>(above)] == row_of[i];
      if (!is_inside_itself) row.total_ms += ms(event.end - event.begin);
    }
  }
  for (KeyAverage& row : rows) row.share = total_ms() > 0 ? row.self_ms / total_ms() : 0;
  std::ranges::stable_sort(rows, std::greater<>(), &KeyAverage::self_ms);
  return rows;
}

std::vector<ModuleTime> Profiler::modules() const {
  std::vector<ModuleTime> modules;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const RecordedThread& thread : threads_) {
    const auto self = self_times(thread.events);
    const auto phases = phases_of(thread.events);
    const auto paths = modules_of(thread.events);
    for (std::size_t i = 0; i < thread.events.size(); ++i) {
      if (paths[i] == nullptr) continue;
      const auto [place, is_new] = places.emplace(*paths[i], modules.size());
      if (is_new) modules.push_back({.path = std::string(*paths[i])});
      ModuleTime& module = modules[place->second];
      module.calls += thread.events[i].kind == EventKind::module;
      module.flops += thread.events[i].flops;
      (phases[i] == Phase::backward ? module.backward_ms : module.forward_ms) += ms(self[i]);
    }
  }
  return modules;
}

std::vector<std::pair<Phase, double>> Profiler::phases() const {
  std::vector<std::pair<Phase, double>> sums;
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::optimizer, Phase::data,
                            Phase::communication, Phase::other})
    sums.emplace_back(phase, 0);
  if (threads_.empty()) return sums;
  const auto self = self_times(threads_[0].events);
  const auto phases = phases_of(threads_[0].events);
  for (std::size_t i = 0; i < self.size(); ++i)
    std::ranges::find(sums, phases[i], &std::pair<Phase, double>::first)->second += ms(self[i]);
  return sums;
}

void Profiler::write_chrome_trace(const std::string& path, int rank) const {
  require(!threads_.empty(), "profiler: nothing was recorded, so there is nothing to write to ",
          path);
  using std::chrono::nanoseconds;
  ChromeTrace trace;
  trace.name_process(rank, concat("rank ", rank, " on ", dist::host_name()));
  for (const RecordedThread& thread : threads_) {
    trace.name_thread(rank, thread.id, thread.name);
    for (const ProfileEvent& event : thread.events) {
      ChromeTrace::Args args;
      if (!event.module.empty()) args.emplace_back("module", std::string(event.module));
      if (!event.shapes.empty()) args.emplace_back("shapes", std::string(event.shapes));
      if (event.flops > 0) args.emplace_back("flops", event.flops);
      if (event.bytes > 0) args.emplace_back("bytes", event.bytes);
      if (event.live_bytes > 0)
        args.emplace_back("live bytes", static_cast<double>(event.live_bytes));
      if (event.device_ns > 0) args.emplace_back("device ms", ms(event.device_ns));
      const bool is_model = event.kind == EventKind::module && event.name.empty();
      trace.complete(event.kind == EventKind::backward ? display_name(event)
                     : is_model                        ? "model"
                                                       : std::string(event.name),
                     category_of(event.kind), rank, thread.id, nanoseconds(event.begin),
                     nanoseconds(event.end - event.begin), args);
    }
  }
  const std::int64_t begin = threads_[0].events[0].begin;
  const int lane = static_cast<int>(threads_.size());
  if (!marks_.empty()) trace.name_thread(rank, lane, "steps");
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    const std::int64_t from = i == 0 ? begin : marks_[i - 1];
    trace.complete(concat("step ", i + 1), "step", rank, lane, nanoseconds(from),
                   nanoseconds(marks_[i] - from));
  }
  ChromeTraceFile file(path);
  file.add(trace.events());
  file.commit();
}

}  // namespace rondo::train
