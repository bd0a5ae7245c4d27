// Profiler::table: the rows as text.

#include <fmt/format.h>

#include <algorithm>

#include "train/profiler.h"

namespace rondo::train {
namespace {

using Row = std::vector<std::string>;

/// The first two columns hold text, the others numbers.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i < 2 ? fmt::format("{:<{}}  ", row[i], widths[i])
                    : fmt::format("{:>{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

/// "12", or "0.3" for an op that does not run in every step.
std::string count(double calls) {
  return calls == static_cast<double>(static_cast<std::int64_t>(calls))
             ? fmt::format("{:.0f}", calls)
             : fmt::format("{:.1f}", calls);
}

/// The table of one group of rows.
class Columns {
 public:
  Columns(const TableOptions& options, double steps, bool has_device)
      : options_(options), steps_(steps), has_device_(has_device) {}

  Row header() const {
    Row row = {"op", "phase", "calls", "self ms", "share", "total ms", "average ms"};
    if (has_device_) row.emplace_back("device ms");
    row.insert(row.end(), {"GFLOP/s", "GB/s"});
    if (options_.group_by.module) row.emplace_back("module");
    if (options_.group_by.shapes) row.emplace_back("shapes");
    return row;
  }

  Row line(const KeyAverage& r) const {
    Row row = {r.name,
               name_of(r.phase),
               r.kind == EventKind::root ? "" : count(static_cast<double>(r.calls) / steps_),
               fmt::format("{:.3f}", r.self_ms / steps_),
               r.is_main ? fmt::format("{:.1f} %", 100 * r.share) : "",
               r.kind == EventKind::root ? "" : fmt::format("{:.3f}", r.total_ms / steps_),
               r.kind == EventKind::root ? "" : fmt::format("{:.3f}", r.average_ms())};
    if (has_device_) row.push_back(detail::positive(r.device_ms / steps_, 3));
    row.insert(row.end(),
               {detail::positive(r.gflops_per_s(), 1), detail::positive(r.gb_per_s(), 1)});
    if (options_.group_by.module) row.push_back(r.module);
    if (options_.group_by.shapes) row.push_back(r.shapes);
    return row;
  }

  /// The rows with the most time, and one for the rest.
  std::string text(const std::vector<const KeyAverage*>& rows) const {
    std::vector<Row> lines = {header()};
    KeyAverage rest{.name = "", .is_main = rows.empty() || rows[0]->is_main};
    std::size_t left_out = 0;
    for (const KeyAverage* row : rows) {
      if (lines.size() <= options_.row_limit) {
        lines.push_back(line(*row));
        continue;
      }
      ++left_out;
      rest.calls += row->calls;
      rest.self_ms += row->self_ms;
      rest.share += row->share;
    }
    if (left_out > 0) {
      Row row = line(rest);
      row[0] = fmt::format("{} more", left_out);
      row[1] = row[5] = row[6] = "";
      lines.push_back(std::move(row));
    }
    return aligned(lines);
  }

 private:
  TableOptions options_;
  double steps_;
  bool has_device_;
};

}  // namespace

std::string detail::positive(double value, int digits) {
  return value > 0 ? fmt::format("{:.{}f}", value, digits) : "";
}

std::string Profiler::table(const TableOptions& options) const {
  if (threads_.empty()) return "profiler: nothing was recorded\n";
  const std::vector<KeyAverage> rows = key_averages(options.group_by);
  std::vector<const KeyAverage*> main, others;
  bool has_device = false;
  for (const KeyAverage& row : rows) {
    (row.is_main ? main : others).push_back(&row);
    has_device = has_device || row.device_ms > 0;
  }
  const auto n = static_cast<double>(steps());
  const Columns columns(options, n, has_device);
  std::string text = marks_.empty() ? fmt::format("{:.3f} ms\n", total_ms())
                                    : fmt::format("{} step{} of {:.3f} ms; figures are per step\n",
                                                  steps(), steps() == 1 ? "" : "s", total_ms() / n);
  text += columns.text(main);
  std::string sums;
  for (const auto& [phase, time] : phases()) {
    if (time <= 0) continue;
    sums += fmt::format("{}{} {:.3f} ms ({:.1f} %)", sums.empty() ? "" : ", ", name_of(phase),
                        time / n, 100 * time / total_ms());
  }
  text += sums + '\n';
  if (!others.empty()) text += "on other threads at the same time\n" + columns.text(others);
  if (has_device)
    text +=
        "self and total are times of the host, which puts kernels into the GPU's queue; device is "
        "the time of the kernels\n";
  if (dropped() > 0)
    text += fmt::format(
        "{} more events did not fit (RecordingOptions::max_events is {}); their time is counted in "
        "their parents\n",
        dropped(), options_.max_events);
  return text;
}

}  // namespace rondo::train
