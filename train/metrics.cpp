#include "train/metrics.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "io/atomic_file.h"
#include "tensor/error.h"
#include "tensor/own_file.h"

namespace rondo::train {
namespace {

bool is_csv(const std::string& path) { return std::filesystem::path(path).extension() == ".csv"; }

/// The epoch of a line of JSON; nullopt if the line is not an object. Throws IoError for an object
/// without an epoch.
std::optional<double> epoch_of_json(const std::filesystem::path& path, const std::string& line) {
  auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return {};
  auto epoch = json.find("epoch");
  require<IoError>(epoch != json.end() && epoch->is_number(), path.string(),
                   ": has a line without an epoch, so it is not a run's metrics: ", line);
  return epoch->get<double>();
}

/// The epoch of a line of a table (its first column); nullopt if it has other columns than
/// `header`.
std::optional<double> epoch_of_row(const std::string& header, const std::string& line) {
  if (std::count(line.begin(), line.end(), ',') != std::count(header.begin(), header.end(), ','))
    return {};
  std::int64_t epoch = 0;
  const auto end = std::from_chars(line.data(), line.data() + line.size(), epoch);
  if (end.ec != std::errc() || *end.ptr != ',') return {};
  return static_cast<double>(epoch);
}

/// The lines of a file and, for a table, its header before them. Leaves out an incomplete last line
/// (from a crash of the machine), and characters that spreadsheets append.
struct FileLines {
  static constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // of UTF-8: spreadsheets
  std::string header;
  std::vector<std::string> lines;

  FileLines(std::istream& file, bool is_table) {
    if (is_table && std::getline(file, header)) {
      trim(header);
      if (header.starts_with(byte_order_mark)) header.erase(0, byte_order_mark.size());
      const std::string_view first = "epoch,";
      if (file.eof() && header.substr(0, first.size()) == first.substr(0, header.size()))
        header.clear();  // cut short
    }
    for (std::string line; std::getline(file, line) && !file.eof();) {
      trim(line);
      lines.push_back(std::move(line));
    }
  }

 private:
  static void trim(std::string& line) {
    if (line.ends_with('\r')) line.pop_back();
  }
};

/// The epoch and the step come first; the others follow, sorted by name.
std::string row(const Metrics& metrics, bool of_names) {
  std::string text;
  const auto add = [&](const std::string& name, double value) {
    text += concat(text.empty() ? "" : ",", of_names ? name : fmt::format("{}", value));
  };
  for (const char* first : {"epoch", "step"})
    if (const auto found = metrics.find(first); found != metrics.end()) add(first, found->second);
  for (const auto& [name, value] : metrics)
    if (name != "epoch" && name != "step") add(name, value);
  return text + '\n';
}

}  // namespace

std::string MetricsFile::read(std::int64_t keep_epochs) {
  std::error_code nothing_there;
  const auto type = std::filesystem::status(path_, nothing_there).type();
  using enum std::filesystem::file_type;
  require<IoError>(type != directory, path_, ": is a folder");
  // A device or a pipe might never end.
  require<IoError>(type == regular || type == not_found || type == none, path_,
                   ": is not a regular file");
  std::ifstream old(path_);
  if (!old) return "";
  const FileLines there(old, is_table());
  if (!there.header.empty()) {
    require<IoError>(
        there.header.starts_with("epoch,"), path_,
        ": its first column is not epoch, so it is not a run's metrics: ", there.header);
    header_ = there.header + '\n';
  }
  std::string kept;
  bool goes_on = keep_epochs > 0;  // new runs keep no rows; a stopped run's later rows are dropped
  for (const std::string& line : there.lines) {
    const auto epoch = is_table() ? epoch_of_row(header_, line) : epoch_of_json(path_, line);
    require<IoError>(epoch || line.empty() || !goes_on, path_,
                     ": has a line that is not a row of a run and would be lost: \"", line,
                     "\"; repair the line or move the file away");
    if (epoch && *epoch <= static_cast<double>(keep_epochs))
      kept += line + '\n';
    else if (epoch)
      goes_on = false;
  }
  if (kept.empty()) header_.clear();
  return header_ + kept;
}

bool MetricsFile::is_table() const { return is_csv(path_); }

void MetricsFile::check(const std::string& path) {
  io::require_writable_folder(std::filesystem::path(path).parent_path());
  MetricsFile file;
  file.path_ = path;
  file.read(0);
}

MetricsFile::MetricsFile(std::string path, std::int64_t keep_epochs) : path_(std::move(path)) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  require<IoError>(!error, folder.string(), ": cannot be created: ", error.message());
  const std::string kept = read(keep_epochs);
  io::AtomicFile file(path_);
  file.write(kept.data(), kept.size());
  file.commit();
  // A link that the user made was followed above. A link that appears later is not followed.
  file_ = std::filesystem::canonical(path_, error).string();
  require<IoError>(!error, path_, ": cannot be written: ", error.message());
}

void MetricsFile::check_columns(const Metrics& metrics) const {
  if (path_.empty() || !is_table() || header_.empty()) return;
  const std::string header = row(metrics, true);
  const auto columns = [](const std::string& line) { return line.substr(0, line.find('\n')); };
  require<IoError>(header_ == header, path_, ": its columns are ", columns(header_),
                   ", but this run's metrics are ", columns(header),
                   "; give this run a table of its own");
}

void MetricsFile::write(const Metrics& metrics) {
  if (path_.empty()) return;
  check_columns(metrics);
  std::string line;
  if (is_table()) {
    if (header_.empty()) line = header_ = row(metrics, true);
    line += row(metrics, false);
  } else {
    line = nlohmann::json(metrics).dump() + '\n';
  }
  OwnFile(file_, OwnFile::Mode::append).write(line);
}

namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

Metrics metrics_of_row(const std::string& header, const std::string& line) {
  const auto names = cells_of(header), cells = cells_of(line);
  Metrics metrics;
  for (std::size_t i = 0; i < names.size(); ++i)
    metrics[names[i]] = std::strtod(cells[i].c_str(), nullptr);
  return metrics;
}

Metrics metrics_of_json(const std::string& line) {
  Metrics metrics;
  const auto json = nlohmann::json::parse(line);
  for (const auto& [name, value] : json.items())
    if (value.is_number()) metrics[name] = value.get<double>();  // null means it was not finite
  return metrics;
}

}  // namespace

std::vector<Metrics> read_metrics(const std::string& path) {
  std::ifstream file(path);
  require<IoError>(file.good(), path, ": cannot be opened");
  const bool is_table = is_csv(path);
  const FileLines there(file, is_table);
  std::map<double, Metrics> by_epoch;
  for (const std::string& line : there.lines) {
    const auto epoch = is_table ? epoch_of_row(there.header, line) : epoch_of_json(path, line);
    if (epoch)
      by_epoch[*epoch] = is_table ? metrics_of_row(there.header, line) : metrics_of_json(line);
  }
  std::vector<Metrics> rows;
  for (auto& [epoch, metrics] : by_epoch) rows.push_back(std::move(metrics));
  return rows;
}

}  // namespace rondo::train
