#include "outputs.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "extras/tensorboard/curves.h"
#include "extras/tensorboard/summary_writer.h"
#include "flags.h"
#include "io/atomic_file.h"
#include "io/result_file.h"
#include "parts.h"
#include "tensor/error.h"
#include "train/metrics.h"
#include "train/run_state.h"

namespace examples {

namespace rd = rondo;
namespace fs = std::filesystem;

namespace {

/// Creates the run's folder if `file` is in it: the run itself would create that folder only later.
void make_folder_of_run(const Flags& flags, const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  std::error_code nowhere;  // ignored: AtomicFile reports the reason
  if (folder.lexically_normal() / "" == fs::path(flags.checkpoint_dir).lexically_normal() / "")
    fs::create_directories(folder, nowhere);
}

void check_that_files_differ(const Flags& flags) {
  const fs::path folder = flags.checkpoint_dir;
  const std::pair<const char*, fs::path> files[] = {
      {"--weights", flags.weights},
      {"--predict", flags.predict},
      {"the run's lock", folder / "run.lock"},
      {"the run's checkpoint", rd::train::checkpoint_path(folder)},
      {"the run's best checkpoint", folder / "best.safetensors"},
      {"the run's metrics", folder / "metrics.jsonl"},
      {"--csv", flags.csv},
      {"--trace", flags.trace},
      {"--profile", flags.profile},
      {"--report", flags.report},
      {"--export-onnx", flags.export_onnx},
      {"--json", flags.json == "-" ? "" : flags.json}};
  std::map<fs::path, const char*> seen;
  for (const auto& [what, file] : files) {
    if (file.empty() || rd::io::is_written_as_it_stands(file)) continue;
    std::error_code error;
    const fs::path whole = fs::absolute(file), place = fs::weakly_canonical(whole, error);
    const auto [other, is_new] = seen.emplace(error ? whole : place, what);
    // Not an error: a run may start from a checkpoint of its own folder.
    if (!is_new && std::string_view(what).starts_with("--"))
      throw rd::Error(rd::concat(what, " ", file.string(), " is also ", other->second,
                                 ", which it would overwrite"));
  }
}

}  // namespace

void check_outputs(const Flags& flags, const rd::dist::Communicator& comm) {
  check_that_files_differ(flags);
  if (comm.rank() != 0) return;
  const std::pair<const char*, std::string> files[] = {{"--trace", flags.trace},
                                                       {"--profile", flags.profile},
                                                       {"--report", flags.report},
                                                       {"--export-onnx", flags.export_onnx}};
  for (const auto& [flag, file] : files) {
    if (file.empty()) continue;
    make_folder_of_run(flags, file);
    for_flag(flag, [&path = file] { const rd::io::AtomicFile nothing_written_yet(path); });
  }
  if (trains(flags)) {
    for_flag("--checkpoint-dir", [&] { rd::io::require_writable_folder(flags.checkpoint_dir); });
    if (!flags.csv.empty()) for_flag("--csv", [&] { rd::train::MetricsFile::check(flags.csv); });
    if (!flags.tensorboard.empty())
      for_flag("--tensorboard", [&] { rd::io::SummaryWriter::check(flags.tensorboard); });
  }
  if (!flags.json.empty() && flags.json != "-" && !rd::io::is_written_as_it_stands(flags.json))
    make_folder_of_run(flags, flags.json);
  rd::io::check_result_file("--json", flags.json);
}

void write_json(const Flags& flags, const nlohmann::json& result) {
  rd::io::write_result_file("--json", flags.json, result.dump(flags.json == "-" ? -1 : 2) + "\n");
}

}  // namespace examples
