#include "train/run_state.h"

#include <fmt/format.h>
#include <omp.h>

#include "autograd/grad_mode.h"
#include "tensor/random.h"

namespace rondo::train {
namespace {

namespace fs = std::filesystem;

fs::path rank_folder(const fs::path& directory) { return directory / "ranks"; }

// The end of an epoch is no step further than its last batch, but the ranks have averaged since.
std::string prefix_of(const io::Checkpoint::Position& position) {
  return concat("step", position.global_step, ".epoch", position.epoch, ".");
}
fs::path rank_path(const fs::path& directory, const io::Checkpoint::Position& position, int rank) {
  return rank_folder(directory) / concat(prefix_of(position), "rank", rank, ".safetensors");
}

std::string text_of(const io::MetadataValue& value) {
  // Numbers in the fewest digits that tell them from all others.
  std::string text = std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
  return text.empty() ? "\"\"" : text;
}

/// Removes the rank files of all other positions.
void remove_older(const fs::path& directory, const io::Checkpoint::Position& position) {
  std::string keep = prefix_of(position);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(rank_folder(directory), ignored)) {
    if (!entry.path().filename().string().starts_with(keep)) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& directory) { return directory / "checkpoint.safetensors"; }

void RunState::save(const fs::path& directory, const io::Checkpoint::Position& position,
                    const io::Metadata& metadata, const io::Metadata& own) const {
  io::Checkpoint checkpoint{.model = model_name,
                            .config = config,
                            .model_state = model.state_dict(),
                            .optimizer = optimizer.state_dict(),
                            .schedule = schedule.state_dict(),
                            .position = position,
                            .generators = {{"default", default_generator().state()}},
                            .world_size = comm.world_size(),
                            .threads = omp_get_max_threads(),
                            .metadata = metadata};
  checkpoint.communication = communication;
  std::error_code error;
  fs::create_directories(state_per_rank ? rank_folder(directory) : directory, error);
  require<IoError>(!error, directory.string(), ": cannot be created: ", error.message());
  if (state_per_rank && comm.rank() != 0) {
    checkpoint.metadata = own;
    io::save_checkpoint(rank_path(directory, position, comm.rank()).string(), checkpoint);
  }
  comm.barrier();
  if (comm.rank() == 0) {
    checkpoint.metadata.insert(own.begin(), own.end());
    io::save_checkpoint(checkpoint_path(directory).string(), checkpoint);
    if (state_per_rank) remove_older(directory, position);
  }
  comm.barrier();
}

fs::path move_run_aside(const fs::path& directory) {
  if (!fs::exists(checkpoint_path(directory))) return {};
  int n = 1;
  auto numbered = [&] { return directory / concat("previous-", n); };
  while (fs::exists(numbered())) ++n;
  const fs::path previous = numbered(), unfinished = directory / "previous.tmp";
  const std::vector<fs::path> names = {"checkpoint.safetensors", "ranks", "metrics.jsonl"};
  std::error_code error;
  auto check = [&] {
    require<IoError>(!error, directory.string(), ": the run there cannot be moved to ",
                     previous.string(), ": ", error.message());
  };
  // First everything is in the new place too, then the old names go: whenever this is interrupted,
  // one of the two is whole. Checkpoints are replaced and never written to, so a link to one will
  // do, where the file system has links.
  fs::remove_all(unfinished, error);
  fs::create_directories(unfinished, error);
  check();
  using enum fs::copy_options;
  for (const fs::path& name : names) {
    if (!fs::exists(directory / name)) continue;
    const bool may_link = name != "metrics.jsonl";
    if (may_link)
      fs::copy(directory / name, unfinished / name, recursive | create_hard_links, error);
    if (error || !may_link)
      fs::copy(directory / name, unfinished / name, recursive | overwrite_existing, error);
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

// In the order in which it was saved: only another kind of communication has another list.
void RunState::restore_communication(const nn::StateDict& saved, const std::string& path) {
  require(saved.size() == communication.size(), path, ": holds ", saved.size(),
          " tensors of the communication's state, this run has ", communication.size());
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const auto& [name, tensor] = communication[i];
    const nn::NamedTensor& source = saved[i];
    require(source.name == name && source.tensor.shape() == tensor.shape() &&
                source.tensor.dtype() == tensor.dtype(),
            path, ": the communication's state has ", source.name, " ", source.tensor.shape(),
            " where this run has ", name, " ", tensor.shape());
  }
  NoGradGuard no_grad;
  for (std::size_t i = 0; i < saved.size(); ++i)
    communication[i].tensor.copy_(saved[i].tensor.to(communication[i].tensor.device()));
}

io::Checkpoint RunState::restore(const fs::path& directory) {
  std::string path = checkpoint_path(directory).string();
  std::error_code ignored;
  require<IoError>(fs::exists(path, ignored) || !fs::exists(directory / "previous-1", ignored),
                   "there is no ", path,
                   "; earlier runs are in the folders previous-1, … beside it");
  io::Checkpoint checkpoint = io::load_checkpoint(path, model_name);
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
          checkpoint.world_size,
          " ranks that had state of their own (averaging, or a comm hook), and cannot go on with ",
          comm.world_size());
  if (state_per_rank && comm.rank() != 0) {
    std::string mine = rank_path(directory, checkpoint.position, comm.rank()).string();
    io::Checkpoint own = io::load_checkpoint(mine, model_name);
    checkpoint.model_state = own.model_state;
    checkpoint.optimizer = own.optimizer;
    checkpoint.communication = own.communication;
    for (const auto& [name, value] : own.metadata) checkpoint.metadata[name] = value;
  }
  require<IoError>(
      checkpoint.optimizer && checkpoint.schedule, path,
      ": holds weights but no optimizer or schedule, so there is no run to go on with");
  restore_communication(checkpoint.communication, path);
  model.load_state_dict(checkpoint.model_state);
  optimizer.load_state_dict(*checkpoint.optimizer);
  schedule.load_state_dict(*checkpoint.schedule);
  // Every rank has a seed of its own, and all have drawn equally often.
  Generator::State state = default_generator().state();
  state.next_stream = checkpoint.generators.at("default").next_stream;
  default_generator().set_state(state);
  return checkpoint;
}

}  // namespace rondo::train
