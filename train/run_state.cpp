#include "train/run_state.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "autograd/grad_mode.h"
#include "tensor/own_file.h"
#include "tensor/printable.h"
#include "tensor/random.h"

namespace rondo::train {
namespace {

std::string text_of(const std::vector<double>& values) {
  std::string text;
  for (double value : values) text += concat(text.empty() ? "" : ", ", value);
  return text;
}

/// Loading the schedule's state would silently replace the settings of `now`: a longer run would
/// use the rates of the shorter one, and 0 after its end.
void check_same_schedule(const optim::ScheduleState& saved, const optim::ScheduleState& now,
                         const std::string& path) {
  for (const auto& [name, value] : now.values) {
    const auto found = saved.values.find(name);
    if (name == "last_step" || name == "base_lrs" || found == saved.values.end()) continue;
    require(found->second == value, path, ": belongs to a run whose ", saved.type, " has ", name,
            " ", text_of(found->second), ", this one has ", text_of(value),
            "; resume with the same number of epochs, or start a new run from its weights");
  }
  for (std::size_t i = 0; i < std::min(saved.children.size(), now.children.size()); ++i)
    check_same_schedule(saved.children[i], now.children[i], path);
}

namespace fs = std::filesystem;

fs::path rank_folder(const fs::path& directory) { return directory / "ranks"; }

// The position includes the epoch: its end has the same step as its last batch, but the ranks may
// have averaged in between.
std::string prefix_of(const io::Checkpoint::Position& position) {
  return concat("step", position.global_step, ".epoch", position.epoch, ".");
}
fs::path rank_path(const fs::path& directory, const io::Checkpoint::Position& position, int rank) {
  return rank_folder(directory) / concat(prefix_of(position), "rank", rank, ".safetensors");
}

std::string text_of(const io::MetadataValue& value) {
  // Uses the fewest digits that identify a number.
  std::string text = std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
  return text.empty() ? "\"\"" : text;
}

fs::path kept_folder(const fs::path& directory) { return directory / "kept"; }

struct Kept {
  std::int64_t step, epoch;
  fs::path path;
  auto position() const { return std::pair(step, epoch); }
};
/// The kept checkpoints, newest first.
std::vector<Kept> kept_files(const fs::path& directory) {
  std::vector<Kept> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(kept_folder(directory), ignored)) {
    long long step = 0, epoch = 0;
    int end = 0;
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "step%lld.epoch%lld.safetensors%n", &step, &epoch, &end) == 2 &&
        static_cast<std::size_t>(end) == name.size())
      found.push_back({step, epoch, entry.path()});
  }
  std::ranges::sort(found, std::greater(), &Kept::position);
  return found;
}

/// Gives a file a second name, replacing an existing file of that name; copies it if the file
/// system has no hard links. Failure is only a warning, because the run has its checkpoint.
void link_as(const fs::path& file, const fs::path& name) {
  const fs::path unfinished = temporary_name(name.string());
  std::error_code error;
  // Renaming one link to another link of the same file would leave both names.
  if (fs::equivalent(file, name, error)) return;
  // If checkpoint.safetensors is a symbolic link, link to its target: a link to the link would
  // always show the newest checkpoint.
  const fs::path content = fs::canonical(file, error);
  if (!error) fs::create_hard_link(content, unfinished, error);
  if (error) fs::copy_file(file, unfinished, error);
  if (!error) fs::rename(unfinished, name, error);
  if (!error) return;
  std::fprintf(stderr, "warning: cannot write %s: %s\n", printable(name.c_str()).c_str(),
               error.message().c_str());
  fs::remove(unfinished, error);
}

/// Removes all but the newest `keep` checkpoints, those after `position` (which belong to an
/// abandoned continuation), and rank files without a checkpoint.
void remove_older(const fs::path& directory, const io::Checkpoint::Position& position,
                  std::int64_t keep) {
  std::error_code ignored;
  std::set<std::string> prefixes = {prefix_of(position)};
  if (keep == 1) keep = 0;  // checkpoint.safetensors is the one
  for (const Kept& file : kept_files(directory)) {
    if (file.position() <= std::pair(position.global_step, position.epoch) && keep-- > 0)
      prefixes.insert(file.path.stem().string() + ".");
    else
      fs::remove(file.path, ignored);
  }
  for (const auto& entry : fs::directory_iterator(rank_folder(directory), ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_kept = std::ranges::any_of(
        prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); });
    if (!is_kept) fs::remove(entry.path(), ignored);
  }
}

/// Writes rank 0's checkpoint and updates the kept ones.
void write(const fs::path& directory, const io::Checkpoint& checkpoint, std::int64_t keep,
           bool is_best) {
  const fs::path newest = checkpoint_path(directory);
  io::save_checkpoint(newest.string(), checkpoint);
  std::error_code error;
  if (keep > 1) {
    fs::create_directories(kept_folder(directory), error);
    link_as(newest, kept_folder(directory) / (prefix_of(checkpoint.position) + "safetensors"));
  }
  if (is_best) link_as(newest, directory / "best.safetensors");
  remove_older(directory, checkpoint.position, keep);
}

/// Each rank has its own random generator, for example for dropout. Rank 0's is the file's
/// "default".
std::string generator_of(int rank) {
  return rank == 0 ? std::string("default") : concat("rank ", rank);
}

/// The first string that is not empty, or an empty one.
std::string first_of(const std::vector<std::string>& sentences) {
  const auto first = std::ranges::find_if(sentences, [](const auto& s) { return !s.empty(); });
  return first == sentences.end() ? std::string() : *first;
}

/// The generators of all ranks. Collective.
std::map<std::string, Generator::State> generators(dist::Communicator& comm) {
  const Generator::State own = default_generator().state();
  const std::string bytes(reinterpret_cast<const char*>(&own), sizeof own);
  std::map<std::string, Generator::State> all;
  int rank = 0;
  for (const std::string& of_rank : comm.all_gather_bytes(bytes))
    std::memcpy(&all[generator_of(rank++)], of_rank.data(), sizeof own);
  return all;
}

/// Restores this rank's generator. If the number of ranks has changed, the generator keeps its own
/// seed and skips as many draws as rank 0's.
void restore_generator(const io::Checkpoint& checkpoint, const dist::Communicator& comm) {
  Generator::State state = default_generator().state();
  const auto own = checkpoint.generators.find(generator_of(comm.rank()));
  if (checkpoint.world_size == comm.world_size() && own != checkpoint.generators.end())
    state = own->second;
  else
    state.next_stream = checkpoint.generators.at(generator_of(0)).next_stream;
  default_generator().set_state(state);
}

/// Copies `saved`, called `what` in messages, into `tensors`. The order is that of saving; only
/// another kind of communication or model has another list.
void overwrite(const nn::StateDict& tensors, const nn::StateDict& saved, const char* what,
               const std::string& path) {
  require(saved.size() == tensors.size(), path, ": holds ", saved.size(), " tensors of ", what,
          ", this run has ", tensors.size());
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    const nn::NamedTensor& source = saved[i];
    require(source.name == name && source.tensor.shape() == tensor.shape() &&
                source.tensor.dtype() == tensor.dtype(),
            path, ": ", what, " has ", source.name, " ", source.tensor.shape(),
            " where this run has ", name, " ", tensor.shape());
  }
  NoGradGuard no_grad;
  for (std::size_t i = 0; i < saved.size(); ++i)
    tensors[i].tensor.copy_(saved[i].tensor.to(tensors[i].tensor.device()));
}

/// Copies that nobody else modifies.
nn::StateDict copied(nn::StateDict tensors) {
  for (nn::NamedTensor& named : tensors) {
    const Tensor x = named.tensor.detach();
    named.tensor = x.device().is_cpu() ? x.clone() : x.to(Device::cpu());
  }
  return tensors;
}

}  // namespace

fs::path checkpoint_path(const fs::path& directory) { return directory / "checkpoint.safetensors"; }

void RunState::save(const fs::path& directory, const io::Checkpoint::Position& position,
                    const io::Metadata& metadata, const io::Metadata& own, bool is_best) {
  io::Checkpoint checkpoint{.model = model_name,
                            .config = config,
                            .model_state = model.state_dict(),
                            .optimizer = optimizer.state_dict(),
                            .schedule = schedule.state_dict(),
                            .position = position,
                            .generators = generators(comm),
                            .world_size = comm.world_size(),
                            .threads = omp_get_max_threads(),
                            .metadata = metadata};
  checkpoint.communication = communication;
  checkpoint.ema = ema;
  std::error_code error;
  const auto make_folder = [&] {
    fs::create_directories(state_per_rank ? rank_folder(directory) : directory, error);
    require<IoError>(!error, directory.string(), ": cannot be created: ", error.message());
  };
  if (is_async && !state_per_rank) {
    make_folder();
    checkpoint.metadata.insert(own.begin(), own.end());
    try {
      writing.wait();
    } catch (const IoError& error) {
      // The disk may have space again: if the newest state can be written, nothing is lost.
      write(directory, checkpoint, keep, is_best);
      std::fprintf(stderr, "warning: %s; the next checkpoint was written\n",
                   printable(error.what()).c_str());
      return;
    }
    if (comm.rank() != 0) return;
    checkpoint.model_state = copied(checkpoint.model_state);
    checkpoint.optimizer->tensors = copied(checkpoint.optimizer->tensors);
    checkpoint.communication = copied(checkpoint.communication);
    checkpoint.ema = copied(checkpoint.ema);
    writing.start([=, keep = keep] { write(directory, checkpoint, keep, is_best); });
    return;
  }
  const fs::path part = rank_path(directory, position, comm.rank());
  const bool has_part = state_per_rank && comm.rank() != 0;
  const bool is_new = has_part && !fs::exists(part, error);
  // Rank 0's file makes the checkpoint valid, so it comes last; if it cannot be written, the rank
  // files are removed.
  std::string failure;
  const auto attempt = [&](const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception& e) {
      failure = e.what();
    }
  };
  attempt([&] {
    make_folder();
    if (!has_part) return;
    checkpoint.metadata = own;
    io::save_checkpoint(part.string(), checkpoint);
  });
  failure = first_of(comm.all_gather_bytes(failure));
  if (comm.rank() == 0 && failure.empty()) {
    checkpoint.metadata.insert(own.begin(), own.end());
    attempt([&] { write(directory, checkpoint, keep, is_best); });
  }
  failure = comm.broadcast_bytes(failure);
  if (failure.empty()) return;
  if (is_new) fs::remove(part, error);
  throw IoError(failure);
}

void RunState::finish() {
  if (!is_async) return;
  writing.wait();
  comm.barrier();
}

void RunState::mark_best(const fs::path& directory, const fs::path& path) const {
  if (comm.rank() == 0) link_as(path, directory / "best.safetensors");
}

fs::path move_run_aside(const fs::path& directory) {
  // checkpoint.safetensors comes last, so the folder is recognised as a run until all is moved.
  const std::vector<fs::path> names = {"kept", "best.safetensors", "ranks", "metrics.jsonl",
                                       "checkpoint.safetensors"};
  const bool is_run = std::ranges::any_of(names, [&](const fs::path& name) {
    return name != "metrics.jsonl" && fs::exists(directory / name);
  });
  if (!is_run) return {};
  int n = 1;
  auto numbered = [&] { return directory / concat("previous-", n); };
  while (fs::exists(numbered())) ++n;
  const fs::path previous = numbered(), unfinished = directory / "previous.tmp";
  std::error_code error;
  auto check = [&] {
    require<IoError>(!error, directory.string(), ": the run there cannot be moved to ",
                     previous.string(), ": ", error.message());
  };
  // First create everything in the new place, then remove the old names: if this is interrupted,
  // one of the two is complete. Checkpoints are replaced and never modified, so hard links suffice,
  // if the file system has them.
  fs::remove_all(unfinished, error);
  check();
  make_own_folder(unfinished.string());
  using enum fs::copy_options;
  for (const fs::path& name : names) {
    if (!fs::exists(directory / name)) continue;
    const bool may_link = name != "metrics.jsonl";
    const fs::path content = fs::canonical(directory / name, error);  // a link's target
    check();
    if (may_link) fs::copy(content, unfinished / name, recursive | create_hard_links, error);
    if (error || !may_link)
      fs::copy(content, unfinished / name, recursive | overwrite_existing, error);
    check();
  }
  fs::rename(unfinished, previous, error);
  check();
  for (const fs::path& name : names) {
    fs::remove_all(directory / name, error);
    check();
  }
  return previous;
}

/// Reads rank 0's file, and this rank's own state.
io::Checkpoint RunState::read(const fs::path& path, const fs::path& directory) const {
  io::Checkpoint checkpoint = io::load_checkpoint(path.string(), model_name);
  require<IoError>(checkpoint.optimizer && checkpoint.schedule, path.string(),
                   ": holds weights but no optimizer or schedule, so the run cannot be resumed");
  require<IoError>(checkpoint.generators.contains(generator_of(0)), path.string(),
                   ": lacks the state of the random generator \"", generator_of(0),
                   "\", so the run cannot be resumed");
  if (state_per_rank && comm.rank() != 0 && checkpoint.world_size == comm.world_size()) {
    io::Checkpoint own = io::load_checkpoint(
        rank_path(directory, checkpoint.position, comm.rank()).string(), model_name);
    checkpoint.model_state = own.model_state;
    checkpoint.optimizer = own.optimizer;
    checkpoint.communication = own.communication;
    for (const auto& [name, value] : own.metadata) checkpoint.metadata[name] = value;
  }
  return checkpoint;
}

RunState::Restored RunState::restore(const fs::path& directory) {
  finish_background_writes();  // of a run that failed in this process
  // Only rank 0 looks: on a network file system, other ranks may see an older state of the folder.
  const fs::path newest = checkpoint_path(directory);
  std::string names;
  if (comm.rank() == 0) {
    std::error_code ignored;
    const std::vector<Kept> kept = kept_files(directory);
    if (fs::exists(newest, ignored) || !kept.empty())
      names = newest.string() + '\0';  // a path may have any other character
    for (const Kept& file : kept) names += file.path.string() + '\0';
  }
  names = comm.broadcast_bytes(names, 0);
  require<IoError>(
      !names.empty(), "checkpoint ", newest.string(),
      " does not exist, so there is nothing to resume: start without resume (--resume); "
      "earlier runs, if any, are in the folders previous-1, … next to it");
  std::vector<fs::path> candidates;
  std::istringstream lines(names);
  for (std::string line; std::getline(lines, line, '\0');) candidates.emplace_back(line);
  Restored restored;
  for (const fs::path& candidate : candidates) {
    std::string failure;
    try {
      restored.checkpoint = read(candidate, directory);
    } catch (const IoError& error) {
      failure = error.what();
    }
    failure = first_of(comm.all_gather_bytes(failure));
    if (failure.empty()) {
      restored.path = candidate;
      break;
    }
    if (restored.passed_over.empty()) restored.passed_over = failure;
  }
  require<IoError>(!restored.path.empty(), restored.passed_over);
  const std::string path = restored.path.string();
  io::Checkpoint& checkpoint = restored.checkpoint;
  comm.agree("the checkpoint's step", std::to_string(checkpoint.position.global_step));
  for (const auto& [name, value] : config) {
    auto found = checkpoint.config.find(name);
    require(found != checkpoint.config.end() && text_of(found->second) == text_of(value), path,
            ": belongs to a run with ", name, " ",
            found == checkpoint.config.end() ? "unset" : text_of(found->second), ", this one has ",
            name, " ", text_of(value));
  }
  for (const auto& [name, value] : checkpoint.config) {
    require(config.contains(name), path, ": belongs to a run with ", name, " ", text_of(value),
            ", this one has ", name, " unset");
  }
  require(!state_per_rank || checkpoint.world_size == comm.world_size(), path, ": was written by ",
          checkpoint.world_size, checkpoint.world_size == 1 ? " rank" : " ranks",
          " that had state of their own (parameters between two averages, what a comm hook has not "
          "sent, or ZeRO's parts of the optimizer), and cannot be resumed with ",
          comm.world_size(), "; use the same number of ranks, or start a new run from its weights");
  check_same_schedule(*checkpoint.schedule, schedule.state_dict(), path);
  overwrite(communication, checkpoint.communication, "the communication's state", path);
  overwrite(ema, checkpoint.ema, "the averages of parameters", path);
  model.load_state_dict(checkpoint.model_state);
  optimizer.load_state_dict(*checkpoint.optimizer);
  schedule.load_state_dict(*checkpoint.schedule);
  restore_generator(checkpoint, comm);
  return restored;
}

std::string text_of(const RunState::Restored& restored, bool is_complete, bool stopped_early) {
  const io::Checkpoint::Position& position = restored.checkpoint.position;
  const std::string path = printable(restored.path.string());
  return is_complete
             ? fmt::format("the run of {} is complete: {} epoch{}{}", path, position.epoch,
                           position.epoch == 1 ? "" : "s", stopped_early ? ", stopped early" : "")
             : fmt::format("resuming from {}: epoch {}, batch {}", path, position.epoch + 1,
                           position.step + 1);
}

}  // namespace rondo::train
