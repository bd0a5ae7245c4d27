#pragma once
// ChromeTrace: events in the format that chrome://tracing and ui.perfetto.dev display. It is JSON.
// rondo writes "complete" events (ph X: a start and a duration, in microseconds) and names of
// processes and threads (ph M). Each rank is a process.
//
// Times are from std::chrono::steady_clock, which all processes of a machine share. So the traces
// of one run (a TimelineTrace of all ranks, a Profiler of one) line up when they are joined.
//
// Format: "Trace Event Format",
// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/atomic_file.h"

namespace rondo::train {

class ChromeTrace {
 public:
  using Nanoseconds = std::chrono::nanoseconds;
  /// What a viewer shows when the user clicks an event.
  using Args = std::vector<std::pair<std::string, std::variant<double, std::string>>>;

  void name_process(int process, const std::string& name);
  void name_thread(int process, int thread, const std::string& name);
  /// `begin` counts from the clock's epoch.
  void complete(std::string_view name, std::string_view category, int process, int thread,
                Nanoseconds begin, Nanoseconds duration, const Args& args = {});

  /// The events, sorted by their start, as the elements of a JSON array without the brackets.
  std::string events() const;

 private:
  struct Event {
    std::int64_t begin;
    std::string json;
  };
  std::vector<std::string> names_;
  std::vector<Event> events_;
};

/// The file. Holds the events of several traces, one after the other, and appears whole or not at
/// all. Throws IoError.
class ChromeTraceFile {
 public:
  explicit ChromeTraceFile(const std::filesystem::path& path);
  /// `events`: the result of ChromeTrace::events().
  void add(const std::string& events);
  void commit();

 private:
  void put(std::string_view text) { file_.write(text.data(), text.size()); }

  io::AtomicFile file_;
  bool is_first_ = true;
};

}  // namespace rondo::train
