#include "dist/transports/shared_memory/peer_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tensor/error.h"

namespace rondo::dist {

bool PeerMemory::read(int r, void* into, std::uint64_t address, std::size_t bytes) const {
  if (process(r) == getpid()) {  // a thread of this process
    std::memcpy(into, reinterpret_cast<const void*>(address), bytes);
    return true;
  }
  auto* target = static_cast<char*>(into);
  while (bytes > 0) {  // one call moves at most 2 GiB
    const iovec local{target, bytes}, remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t moved = process_vm_readv(process(r), &local, 1, &remote, 1, 0);
    if (moved < 0 && errno == ESRCH) return false;
    if (moved <= 0)
      throw CommError(concat("the memory of process ", process(r), " cannot be read: ",
                             moved < 0 ? std::strerror(errno) : "nothing was moved"));
    target += moved;
    address += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

}  // namespace rondo::dist
