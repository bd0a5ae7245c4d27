#include "dist/collectives/tuner.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

#include "dist/collectives/communicator.h"
#include "tensor/creation.h"
#include "tensor/error.h"
#include "tensor/own_file.h"

namespace rondo::dist {
namespace {

constexpr double enough_seconds = 0.5;  // for one algorithm at one size
constexpr int enough_times = 9;

bool is_ours(AllReduce algorithm) { return algorithm != AllReduce::mpi; }

bool has_native(Communicator& comm) {
  return comm.transport().has_native_all_reduce(f32, ReduceOp::sum);
}

/// The number of ranks on each node: "mpi 2+2"; "mpi 4" if the nodes are unknown. A group of ranks,
/// which cannot use MPI's own all-reduce, is "messages 2".
std::string text_of_world(Communicator& comm) {
  const bool is_group = std::strcmp(comm.backend(), "mpi") == 0 && !has_native(comm);
  const char* backend = is_group ? "messages" : comm.backend();
  std::map<int, int> ranks;
  for (int node : comm.node_of()) ++ranks[node];
  if (ranks.empty()) return concat(backend, ' ', comm.world_size());
  std::string text;
  for (const auto& [node, count] : ranks) text += concat(text.empty() ? "" : "+", count);
  return concat(backend, ' ', text);
}

/// A line of the file: "mpi 2+2 65536 mpi halving ring …".
struct Line {
  std::string world;
  std::size_t bytes = 0;
  std::vector<std::string> algorithms;
};

/// Empty if the file cannot be read, or is a pipe.
std::string contents_of(const std::string& file) {
  std::error_code error;
  std::ostringstream text;
  if (std::filesystem::is_regular_file(file, error)) text << std::ifstream(file).rdbuf();
  return text.str();
}

/// Invalid lines are skipped.
std::vector<Line> read_lines(std::istream& in) {
  std::vector<Line> lines;
  for (std::string text; std::getline(in, text);) {
    std::istringstream words(text);
    std::string backend, ranks;
    Line line;
    if (!(words >> backend >> ranks >> line.bytes)) continue;
    for (std::string algorithm; words >> algorithm;) line.algorithms.push_back(algorithm);
    line.world = concat(backend, ' ', ranks);
    lines.push_back(line);
  }
  return lines;
}

std::size_t size_class(std::size_t bytes) {
  return std::bit_floor(std::max<std::size_t>(bytes, 4));
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

}  // namespace

std::string Tuner::default_file() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return concat(cache, "/rondo/all_reduce.txt");
  if (home != nullptr && *home == '/') return concat(home, "/.cache/rondo/all_reduce.txt");
  return {};
}

Tuner::Tuner(Communicator& comm, std::string file)
    : comm_(comm), file_(std::move(file)), world_(text_of_world(comm)) {
  std::istringstream all(comm_.broadcast_bytes(comm_.rank() == 0 ? contents_of(file_) : ""));
  for (const Line& line : read_lines(all)) {
    if (line.world != world_) continue;
    const std::vector<AllReduce> all = candidates(line.bytes);
    Ranking ranking;
    for (const std::string& name : line.algorithms) {
      const auto algorithm = std::ranges::find(all, name, [](AllReduce w) { return name_of(w); });
      if (algorithm != all.end()) ranking.push_back(*algorithm);
    }
    const bool has_ours = std::ranges::any_of(ranking, is_ours);
    if (has_ours) known_[line.bytes] = std::move(ranking);
  }
}

std::optional<AllReduce> Tuner::fastest(std::size_t bytes,
                                        const std::function<bool(AllReduce)>& is_good) const {
  const auto known = known_.find(size_class(bytes));
  if (known == known_.end()) return std::nullopt;
  const auto algorithm = std::ranges::find_if(known->second, is_good);
  return algorithm == known->second.end() ? std::nullopt : std::optional(*algorithm);
}

void Tuner::learn(std::size_t bytes) {
  if (fastest(bytes)) return;
  known_[size_class(bytes)] = measure(size_class(bytes));
  if (comm_.rank() == 0) write();
}

// Does not try algorithms that cannot be the fastest: at worst they would take longer than all
// others together.
std::vector<AllReduce> Tuner::candidates(std::size_t bytes) const {
  std::vector<AllReduce> all = {AllReduce::halving_doubling, AllReduce::pairwise};
  const auto n = static_cast<std::size_t>(comm_.world_size());
  if (bytes * std::bit_width(n - 1) <= 4 << 20) all.push_back(AllReduce::recursive_doubling);
  if (bytes * n <= 256 << 10) all.push_back(AllReduce::direct);
  if (bytes <= 256 << 10) all.push_back(AllReduce::tree);
  if (bytes >= 4 << 10) all.push_back(AllReduce::ring);
  const auto& nodes = comm_.node_of();
  const bool has_levels = std::ranges::any_of(nodes, [&](int node) {
    const auto there = std::ranges::count(nodes, node);
    return there > 1 && there < std::ssize(nodes);
  });
  if (has_levels) all.push_back(AllReduce::hierarchical);
  if (has_native(comm_)) all.push_back(AllReduce::mpi);
  return all;
}

// The algorithms take turns, so that other load on the network affects all of them equally. A time
// is that of the slowest rank, so all ranks get the same ranking. An algorithm that is far slower
// in its first turns is not measured further.
Tuner::Ranking Tuner::measure(std::size_t bytes) {
  const Tensor x = zeros({static_cast<std::int64_t>(bytes / 4)});
  const auto seconds_of = [&](AllReduce algorithm) {
    comm_.barrier();
    const auto begin = Clock::now();
    comm_.all_reduce_async(x, ReduceOp::sum, algorithm).wait();
    const Tensor slowest =
        scalar(std::chrono::duration<double>(Clock::now() - begin).count(), {.dtype = f64});
    comm_.all_reduce_async(slowest, ReduceOp::max, AllReduce::recursive_doubling).wait();
    return slowest.item<double>();
  };
  const std::vector<AllReduce> algorithms = candidates(bytes);
  std::vector<std::vector<double>> seconds(algorithms.size());
  for (AllReduce algorithm : algorithms)
    seconds_of(algorithm);  // warms up: connections, scratch memory
  double spent = 0, best = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < enough_times; ++turn) {
    if (turn >= 2 && spent > enough_seconds * static_cast<double>(algorithms.size())) break;
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      if (turn >= 2 && median(seconds[i]) > 2 * best) continue;
      seconds[i].push_back(seconds_of(algorithms[i]));
      spent += seconds[i].back();
    }
    best = std::numeric_limits<double>::infinity();
    for (const auto& times : seconds) best = std::min(best, median(times));
  }
  std::vector<std::size_t> order(algorithms.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return median(seconds[i]); });
  Ranking ranking;
  for (const std::size_t i : order) ranking.push_back(algorithms[i]);
  return ranking;
}

// Replaces the file as a whole, or not at all. Keeps lines that other jobs have written meanwhile.
void Tuner::write() const {
  if (file_.empty()) return;
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::create_directories(fs::path(file_).parent_path(), failed);
  std::istringstream there(contents_of(file_));
  const std::string whole = temporary_name(file_);
  try {
    std::ostringstream out;
    std::vector<Line> lines = read_lines(there);
    std::erase_if(lines, [&](const Line& line) {
      return line.world == world_ && known_.contains(line.bytes);
    });
    for (const auto& [bytes, ranking] : known_) {
      lines.push_back({.world = world_, .bytes = bytes, .algorithms = {}});
      for (const AllReduce algorithm : ranking)
        lines.back().algorithms.emplace_back(name_of(algorithm));
    }
    for (const Line& line : lines) {
      out << line.world << ' ' << line.bytes;
      for (const std::string& algorithm : line.algorithms) out << ' ' << algorithm;
      out << '\n';
    }
    OwnFile(whole, OwnFile::Mode::create).write(out.str());
  } catch (const IoError&) {  // the next run measures again
    failed = std::make_error_code(std::errc::io_error);
  }
  if (!failed) fs::rename(whole, file_, failed);
  if (failed) fs::remove(whole, failed);
}

}  // namespace rondo::dist
