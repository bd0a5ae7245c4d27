#include "ptx/races.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

namespace rondo::ptx {
namespace {

/// One thread, or several of a warp, a block or the grid.
enum class By { thread, warp, block, grid };

/// The latest accesses of one kind to a byte.
struct Last {
  std::uint32_t launch = 0, block = 0, thread = 0;  // launch 0: none
  std::uint32_t barriers = 0, exchanges = 0;
  By by = By::thread;
  bool is_atomic = false;
};
struct Byte {
  Last write, read;
};

constexpr std::uint64_t page_bytes = 4096;
using Page = std::array<Byte, page_bytes>;

struct Seen {
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages;  // of addresses outside
  std::vector<Byte> shared;                                        // of the block that runs
  Page* page = nullptr;
  std::uint64_t page_number = 0;
  std::uint32_t launch = 0;
} seen;

bool is_wanted() {
  const char* text = std::getenv("RONDO_PTX_RACES");
  return text != nullptr && std::strcmp(text, "1") == 0;
}
bool is_on = is_wanted();

Byte& byte_at(std::uint64_t address) {
  const std::uint64_t number = address / page_bytes;
  if (seen.page == nullptr || number != seen.page_number) {
    auto& page = seen.pages[number];
    if (page == nullptr) page = std::make_unique<Page>();
    seen.page = page.get();
    seen.page_number = number;
  }
  return (*seen.page)[address % page_bytes];
}

/// Whether something orders what `last` has recorded before what `now` does.
bool is_before(const Last& last, const Last& now) {
  if (last.launch != now.launch) return true;
  if (last.by == By::grid || last.block != now.block) return false;
  if (last.barriers != now.barriers) return true;
  if (last.by == By::block || last.thread / 32 != now.thread / 32) return false;
  if (last.by == By::thread && last.thread == now.thread) return true;
  return last.exchanges != now.exchanges;
}

void check(const Thread& t, const Last& last, const Last& now, const char* verb, const char* did) {
  if (is_before(last, now) || (last.is_atomic && now.is_atomic)) return;
  const std::string who = last.by == By::thread
                              ? "thread " + std::to_string(last.thread) + " of block " +
                                    std::to_string(last.block) + " has "
                              : "several threads have ";
  const std::string what =
      std::string("a race: it ") + verb + " what " + who + did + ", and nothing orders the two";
  fail(t, what.c_str());
}

/// Adds a reader to those of a byte.
void add(Last& readers, const Last& now) {
  if (is_before(readers, now)) {
    readers = now;
    return;
  }
  const By by = readers.block != now.block               ? By::grid
                : readers.thread / 32 != now.thread / 32 ? By::block
                : readers.thread != now.thread           ? By::warp
                                                         : By::thread;
  const bool both_atomic = readers.is_atomic && now.is_atomic;
  const By before = readers.by;
  readers = now;
  readers.by = std::max(by, before);
  readers.is_atomic = both_atomic;
}

}  // namespace

bool looks_for_races = false;

void look_for_races(bool on) { is_on = on; }

// CUB's blocks wait for each other, by means of its own.
void begin_launch(const Kernel& kernel) {
  ++seen.launch;
  looks_for_races = is_on && std::strstr(kernel.name, "3cub") == nullptr;
}

void begin_block(std::size_t shared_bytes) {
  if (looks_for_races) seen.shared.assign(shared_bytes, Byte{});
}

void note_access(const Thread& t, std::uint64_t address, unsigned bytes, Access access,
                 bool shared) {
  const Last now{.launch = seen.launch,
                 .block = t.ctaid[0] + t.nctaid[0] * (t.ctaid[1] + t.nctaid[1] * t.ctaid[2]),
                 .thread = flat(t),
                 .barriers = t.barriers,
                 .exchanges = t.exchanges,
                 .is_atomic = access == Access::atomic};
  for (unsigned i = 0; i < bytes; ++i) {
    Byte& byte = shared ? seen.shared[address + i] : byte_at(address + i);
    if (access == Access::read) {
      check(t, byte.write, now, "reads", "written");
      add(byte.read, now);
    } else {
      check(t, byte.write, now, "writes", "written");
      check(t, byte.read, now, "writes", "read");
      byte.write = now;
    }
  }
}

}  // namespace rondo::ptx
