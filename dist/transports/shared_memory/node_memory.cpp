#include "dist/transports/shared_memory/node_memory.h"

namespace rondo::dist {
namespace {

// Sections are whole pages, so that each is on the NUMA node of the rank that first writes it.
std::size_t section_bytes(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  return (bytes + page - 1) / page * page;
}

}  // namespace

std::size_t NodeMemory::bytes_for(std::size_t bytes, int ranks) {
  return section_bytes(bytes) * static_cast<std::size_t>(ranks);
}

StoragePtr NodeMemory::add_window(const std::shared_ptr<Segment>& segment, std::size_t bytes) {
  const std::size_t stride = section_bytes(bytes);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(windows_, [](const auto& w) { return w.second.segment.expired(); });
    windows_[++newest_] = {.segment = segment, .first = segment->data(), .stride = stride};
  }
  char* mine = segment->data() + stride * static_cast<std::size_t>(space.rank());
  return std::make_shared<Storage>(mine, bytes, Device::cpu(), [segment] {});
}

SharedPlace NodeMemory::place_of(const void* data, std::size_t bytes) const {
  std::lock_guard lock(mutex_);
  const char* p = static_cast<const char*>(data);
  for (const auto& [number, window] : windows_) {
    if (window.segment.expired()) continue;
    const char* mine = window.first + window.stride * static_cast<std::size_t>(space.rank());
    if (p >= mine && p + bytes <= mine + window.stride)
      return {.window = number, .offset = p - mine};
  }
  return {};
}

char* NodeMemory::section(std::int64_t window, int r) const {
  std::lock_guard lock(mutex_);
  const Window& found = windows_.at(window);
  return found.first + found.stride * static_cast<std::size_t>(r);
}

}  // namespace rondo::dist
