#pragma once
// PeerMemory: one rank reads another's private memory, as a debugger would (process_vm_readv). The
// kernel copies once, straight from page to page, where a stage in shared memory takes two copies.
// Whether it may is the machine's business (Yama, seccomp), so ranks try, and agree, before they
// rely on it.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::dist {

class PeerMemory {
 public:
  /// Nobody's can be read.
  PeerMemory() = default;
  /// Of the ranks with these process ids.
  explicit PeerMemory(std::vector<pid_t> processes) : processes_(std::move(processes)) {}

  bool is_readable() const { return !processes_.empty(); }
  pid_t process(int r) const { return processes_[static_cast<std::size_t>(r)]; }
  /// Copies what rank r has at `address`. False: its process is no more. Throws CommError when it
  /// cannot otherwise.
  bool read(int r, void* into, std::uint64_t address, std::size_t bytes) const;

 private:
  std::vector<pid_t> processes_;
};

}  // namespace rondo::dist
