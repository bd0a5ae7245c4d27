#include "train/chrome_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rondo::train {
namespace {

/// Users choose the names; invalid UTF-8 becomes U+FFFD.
std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double microseconds(ChromeTrace::Nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

std::string name_event(const char* what, int process, int thread, const std::string& name) {
  return text_of(
      {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
}

}  // namespace

void ChromeTrace::name_process(int process, const std::string& name) {
  names_.push_back(name_event("process_name", process, 0, name));
}

void ChromeTrace::name_thread(int process, int thread, const std::string& name) {
  names_.push_back(name_event("thread_name", process, thread, name));
}

void ChromeTrace::complete(std::string_view name, std::string_view category, int process,
                           int thread, Nanoseconds begin, Nanoseconds duration, const Args& args) {
  nlohmann::json event = {{"name", name},
                          {"cat", category},
                          {"ph", "X"},
                          {"ts", microseconds(begin)},
                          {"dur", microseconds(duration)},
                          {"pid", process},
                          {"tid", thread}};
  for (const auto& [key, value] : args)
    std::visit([&, k = key](const auto& v) { event["args"][k] = v; }, value);
  events_.push_back({begin.count(), text_of(event)});
}

std::string ChromeTrace::events() const {
  std::vector<const Event*> sorted;
  for (const Event& event : events_) sorted.push_back(&event);
  std::ranges::stable_sort(sorted, {}, [](const Event* event) { return event->begin; });
  std::string text;
  const auto put = [&](const std::string& json) { text += (text.empty() ? "" : ",\n") + json; };
  for (const std::string& name : names_) put(name);
  for (const Event* event : sorted) put(event->json);
  return text;
}

ChromeTraceFile::ChromeTraceFile(const std::filesystem::path& path) : file_(path.string()) {
  put("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
}

void ChromeTraceFile::add(const std::string& events) {
  if (events.empty()) return;
  if (!is_first_) put(",\n");
  is_first_ = false;
  put(events);
}

void ChromeTraceFile::commit() {
  put("\n]}\n");
  file_.commit();
}

}  // namespace rondo::train
