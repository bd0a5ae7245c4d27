#pragma once
// PeerMemory: one rank reads another's private memory, as a debugger would (process_vm_readv). The
// kernel copies once, directly from page to page; a stage in shared memory needs two copies. The
// machine's settings (Yama, seccomp) may forbid it. Therefore the ranks try it, and agree, before
// they use it.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo::dist {

class PeerMemory {
 public:
  /// No memory can be read.
  PeerMemory() = default;
  /// The memory of the ranks with these process ids can be read.
  explicit PeerMemory(std::vector<pid_t> processes) : processes_(std::move(processes)) {}

  bool is_readable() const { return !processes_.empty(); }
  pid_t process(int r) const { return processes_[static_cast<std::size_t>(r)]; }
  /// Copies `bytes` bytes at `address` of rank r. Returns false if its process no longer exists.
  /// Throws CommError if reading fails for another reason.
  bool read(int r, void* into, std::uint64_t address, std::size_t bytes) const;

 private:
  std::vector<pid_t> processes_;
};

}  // namespace rondo::dist
