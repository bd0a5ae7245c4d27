// rondo-data: downloads data sets and weights, also for machines without a network.
//
//   rondo-data ls                              lists them, and where each is or would be
//   rondo-data get cifar10 --to /shared/data   on a machine with a network
//   RONDO_DATA=/shared/data cifar_resnet …     on a machine without a network
//
// Names are those of `--dataset` (data/open.h) and of weights (extras/hub/pretrained.h).

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "data/download.h"
#include "data/open.h"
#include "extras/command_line.h"
#include "extras/hub/pretrained.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace {

using namespace rondo;

struct Known {
  data::RemoteDataset remote;
  std::string kind;
};

std::vector<Known> all_known() {
  std::vector<Known> all;
  for (const std::string& name : data::dataset_names())
    all.push_back({data::remote_dataset(name), "data set"});
  for (const hub::PretrainedWeights& weights : hub::known_weights())
    all.push_back({hub::remote_weights(weights.name), "weights"});
  return all;
}

std::string size_of(const data::RemoteDataset& remote) {
  std::int64_t bytes = 0;
  for (const data::RemoteFile& file : remote.files) {
    if (file.bytes == 0) return "?";  // unknown
    bytes += file.bytes;
  }
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

/// ", but train.bin is missing"; empty if the folder is complete.
std::string what_lacks(const data::RemoteDataset& remote, const std::filesystem::path& folder) {
  const std::vector<std::string> names = data::missing_files(remote, folder);
  if (names.empty()) return "";
  return fmt::format(", but {} {} missing", fmt::join(names, ", "),
                     names.size() == 1 ? "is" : "are");
}

int list() {
  const std::filesystem::path cache = data::cache_dir();
  const char* variable = std::getenv("RONDO_DATA");
  std::cout << fmt::format("{} (RONDO_DATA{})\n", printable(cache.string()),
                           variable == nullptr || *variable == 0 ? " is not set" : "");
  for (const auto& [remote, kind] : all_known()) {
    std::filesystem::path found;
    if (kind == "data set")
      found = data::find_dataset(remote.name);
    else if (std::error_code error; std::filesystem::exists(cache / remote.folder, error))
      found = cache / remote.folder;
    const bool is_here = !found.empty();
    std::cout << fmt::format("{:18} {:8} {:>8}  {} {}{}\n", remote.name, kind, size_of(remote),
                             is_here ? "is in" : "would be in",
                             printable((is_here ? found : cache / remote.folder).string()),
                             is_here ? what_lacks(remote, found) : "");
  }
  return 0;
}

int get(const std::string& name, const std::string& folder) {
  const std::vector<Known> all = all_known();
  const auto known =
      std::ranges::find_if(all, [&](const Known& each) { return each.remote.name == name; });
  if (known == all.end()) {
    std::string names;
    for (const Known& each : all) names += (names.empty() ? "" : ", ") + each.remote.name;
    throw Error(concat("unknown data set or weights '", name, "'; use one of ", names));
  }
  if (folder.empty() && known->kind == "data set") {  // perhaps in a folder of the user's own
    const std::string there = data::find_dataset(name);
    if (!there.empty() && what_lacks(known->remote, there).empty()) {
      std::cout << printable(there) << "\n";
      return 0;
    }
  }
  std::cerr << fmt::format("{}: {} from {}\n", name, size_of(known->remote),
                           known->remote.files.at(0).url);
  const std::string path = data::obtain(known->remote, folder.empty() ? data::cache_dir() : folder);
  const std::string lacks = what_lacks(known->remote, path);
  require<IoError>(lacks.empty(), path, ": exists", lacks,
                   "; remove the folder and run this command again");
  std::cout << printable(path) << "\n";
  return 0;
}

int program(int argc, char** argv) {
  std::string name, folder;
  flags::CommandLine app("Downloads data sets and weights, also for machines without a network.",
                         "RONDO_DATA is the folder where programs look for them; default: rondo/ "
                         "in XDG_CACHE_HOME or ~/.cache.");
  flags::CommandLine& ls = app.add_command("ls", "names, sizes, and where each is or would be");
  flags::CommandLine& to = app.add_command("get", "downloads NAME, unless it exists already");
  to.add_required("NAME", name, "a data set or weights; ls lists the names");
  to.add("--to", folder, "the folder to download to, instead of RONDO_DATA", flags::not_empty());
  if (auto status = app.parse(argc, argv)) return *status;
  return ls.given() ? list() : get(name, folder);
}

}  // namespace

int main(int argc, char** argv) { return rondo::flags::run_program(argc, argv, program); }
