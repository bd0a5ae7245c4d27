// Saves a checkpoint, and cuts the power after each step.
//
// start fails: a power cut after step 1 (create checkpoint) leaves ""
#include <rondo/rondo.h>

#include <cstddef>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exercise.h"

namespace rd = rondo;

namespace {

const std::string old_bytes = "the old checkpoint", new_bytes = "the new checkpoint";

struct PowerCut {};

/// Counts the steps, and throws PowerCut after the last one that is allowed.
class SimulatedDisk final : public Disk {
 public:
  explicit SimulatedDisk(std::size_t steps) : steps_(steps) {
    auto file = std::make_shared<File>();
    file->bytes = old_bytes;
    file->synced = old_bytes.size();
    now_["checkpoint"] = synced_["checkpoint"] = file;
  }

  void create(const std::string& name) override {
    if (const auto found = now_.find(name); found != now_.end()) {
      *found->second = {};
    } else {
      now_[name] = std::make_shared<File>();
    }
    step("create " + name);
  }
  void append(const std::string& name, std::string_view bytes) override {
    file(name).bytes += bytes;
    step("append to " + name);
  }
  void sync(const std::string& name) override {
    file(name).synced = file(name).bytes.size();
    step("sync " + name);
  }
  void rename(const std::string& from, const std::string& to) override {
    file(from);
    now_[to] = now_.extract(from).mapped();
    step("rename " + from + " to " + to);
  }
  void sync_folder() override {
    synced_ = now_;
    step("sync the folder");
  }

  const std::string& last_step() const { return last_step_; }
  std::size_t files() const { return now_.size(); }
  /// What the file may contain after a power cut now: with the names of the last sync_folder, or
  /// with today's; with the bytes of the last sync, with half of the later ones, or with all.
  std::vector<std::string> after_a_power_cut(const std::string& name) const {
    std::vector<std::string> all;
    for (const Folder* folder : {&synced_, &now_}) {
      const auto found = folder->find(name);
      if (found == folder->end()) {
        all.emplace_back("(no file)");
        continue;
      }
      const auto& [bytes, synced] = *found->second;
      for (const std::size_t kept : {synced, (synced + bytes.size()) / 2, bytes.size()})
        all.push_back(bytes.substr(0, kept));
    }
    return all;
  }

 private:
  struct File {
    std::string bytes;
    std::size_t synced = 0;
  };
  using Folder = std::map<std::string, std::shared_ptr<File>>;

  File& file(const std::string& name) {
    const auto found = now_.find(name);
    rd::require(found != now_.end(), "file not found: ", name);
    return *found->second;
  }
  void step(const std::string& what) {
    last_step_ = what;
    if (--steps_ == 0) throw PowerCut();
  }

  std::size_t steps_;
  std::string last_step_;
  Folder now_, synced_;
};

/// Whether `save` has returned before it has done `steps` steps.
bool check(std::size_t steps) {
  SimulatedDisk disk(steps);
  bool is_over = true;
  try {
    save(disk, "checkpoint", new_bytes);
  } catch (const PowerCut&) {
    is_over = false;
  }
  for (const std::string& left : disk.after_a_power_cut("checkpoint")) {
    rd::require(
        left == new_bytes || (left == old_bytes && !is_over), "a power cut after ",
        is_over ? "save has returned" : rd::concat("step ", steps, " (", disk.last_step(), ")"),
        " leaves \"", left, "\"");
  }
  rd::require(!is_over || disk.files() == 1, "save has left another file");
  return is_over;
}

int run() {
  std::size_t steps = 1;
  while (!check(steps)) ++steps;
  std::cout << "after each of " << steps - 1 << " steps the checkpoint is the old or the new one\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
