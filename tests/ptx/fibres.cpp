#include "ptx/fibres.h"

#include <array>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <string>

// fibre_switch(&from, to) pushes the registers that a call preserves, stores the stack pointer in
// `from`, and continues with the stack `to`. (swapcontext does the same with two calls of the
// kernel.)
asm(R"(
.text
.globl fibre_switch
.type fibre_switch,@function
fibre_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.section .note.GNU-stack,"",@progbits
.text
)");
extern "C" void fibre_switch(void** from, void* to);

namespace rondo::ptx {
namespace {

enum class State { runs, at_barrier, in_exchange, ended };

struct Fibre {
  void* stack_pointer = nullptr;
  std::unique_ptr<char[]> stack;
  State state = State::runs;
  int site = 0;  // where it waits, for which lanes, and what it brings
  std::uint32_t mask = 0;
  std::uint64_t mine = 0;
  Votes votes{};                         // what it gets from a barrier,
  const std::uint64_t* lanes = nullptr;  // and from an exchange
};

constexpr std::size_t stack_bytes = 256 * 1024;

/// The block that runs. Launches are made under the lock of the simulated runtime (host_cudart.h).
struct Block {
  const Kernel* kernel = nullptr;
  std::vector<Thread>* threads = nullptr;
  unsigned char* parameters = nullptr;
  std::vector<Fibre> fibres;                         // at least as many as threads
  std::vector<std::array<std::uint64_t, 32>> lanes;  // what an exchange brought, at its first fibre
  int current = 0;
  void* scheduler = nullptr;

  Thread& thread(int i) { return (*threads)[static_cast<std::size_t>(i)]; }
  Fibre& fibre(int i) { return fibres[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(threads->size()); }
} block;

void leave() { fibre_switch(&block.fibre(block.current).stack_pointer, block.scheduler); }

/// The first function on a fibre's stack.
void run_thread() {
  block.kernel->run(block.thread(block.current), block.parameters);
  block.fibre(block.current).state = State::ended;
  leave();
}

void enter(int i) {
  block.current = i;
  Fibre& f = block.fibre(i);
  fibre_switch(&block.scheduler, f.stack_pointer);
}

void prepare(int i) {
  Fibre& f = block.fibre(i);
  if (f.stack == nullptr) f.stack.reset(new char[stack_bytes]);
  // Each stack begins at another offset in its page, because equal offsets share the same few lines
  // of the first cache.
  const auto end = reinterpret_cast<std::uintptr_t>(f.stack.get() + stack_bytes - i % 64 * 320);
  auto* top = reinterpret_cast<std::uintptr_t*>(end & ~std::uintptr_t{15});
  *--top = 0;
  *--top = reinterpret_cast<std::uintptr_t>(&run_thread);  // fibre_switch returns to it
  for (int i = 0; i < 6; ++i) *--top = 0;                  // the registers that it pops
  f.stack_pointer = top;
  f.state = State::runs;
}

/// Whether all lanes that fibre i names have come to the exchange where it waits.
bool all_lanes_wait(int i) {
  const Fibre& f = block.fibre(i);
  const int first = i / 32 * 32;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(f.mask >> lane & 1)) continue;
    const int other = first + lane;
    if (other >= block.size() || block.fibre(other).state == State::ended) {
      const std::string what = "a shuffle or vote waits for lane " + std::to_string(lane) +
                               ", which has ended or does not exist";
      fail(block.thread(i), what.c_str());
    }
    const Fibre& o = block.fibre(other);
    if (o.state != State::in_exchange || o.site != f.site || o.mask != f.mask) return false;
  }
  return true;
}

bool finish_exchanges() {
  bool any = false;
  for (int i = 0; i < block.size(); ++i) {
    if (block.fibre(i).state != State::in_exchange || !all_lanes_wait(i)) continue;
    any = true;
    const std::uint32_t mask = block.fibre(i).mask;
    const int first = i / 32 * 32;
    // All of them read these values before any exchange is finished again.
    std::array<std::uint64_t, 32>& lanes = block.lanes[static_cast<std::size_t>(i)];
    lanes.fill(~std::uint64_t{0});
    for (int lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1)) continue;
      Fibre& f = block.fibre(first + lane);
      lanes[static_cast<std::size_t>(lane)] = f.mine;
      f.lanes = lanes.data();
      f.state = State::runs;
    }
  }
  return any;
}

/// No fibre can run: all must be at the same barrier.
void finish_barrier() {
  for (int i = 0; i < block.size(); ++i) {
    const Fibre& f = block.fibre(i);
    const Fibre& other = block.fibre(i == 0 ? block.size() - 1 : i - 1);
    if (f.state == State::at_barrier && other.state == State::ended)
      fail(block.thread(i), "a barrier waits for a thread that has ended");
    if (f.state == State::at_barrier && other.state == State::in_exchange)
      fail(block.thread(i), "a barrier waits for a thread that waits at a shuffle or vote");
    if (f.state == State::in_exchange && other.state != State::ended)
      fail(block.thread(i), "a shuffle or vote waits for lanes that are elsewhere");
    if (f.state == State::at_barrier && f.site != other.site)
      fail(block.thread(i), "threads of a block wait at different barriers");
  }
  Votes votes{false, true};
  for (int i = 0; i < block.size(); ++i) {
    votes.any |= block.fibre(i).mine != 0;
    votes.all &= block.fibre(i).mine != 0;
  }
  for (int i = 0; i < block.size(); ++i) {
    block.fibre(i).votes = votes;
    block.fibre(i).state = State::runs;
  }
}

}  // namespace

Votes barrier(Thread& t, int site, bool mine) {
  Fibre& f = block.fibre(block.current);
  f.state = State::at_barrier;
  f.site = site;
  f.mine = mine;
  leave();
  ++t.barriers;
  return f.votes;
}

const std::uint64_t* exchange(Thread& t, int site, std::uint32_t mask, std::uint64_t mine) {
  if (!(mask >> lane(t) & 1)) fail(t, "a lane is not in the mask of its own shuffle or vote");
  Fibre& f = block.fibre(block.current);
  f.state = State::in_exchange;
  f.site = site;
  f.mask = mask;
  f.mine = mine;
  leave();
  ++t.exchanges;
  return f.lanes;
}

void run_block(const Kernel& kernel, std::vector<Thread>& threads, unsigned char* parameters) {
  static std::mt19937 random(1);
  block.kernel = &kernel;
  block.threads = &threads;
  block.parameters = parameters;
  const int n = block.size();
  if (block.fibres.size() < threads.size()) {
    block.fibres.resize(threads.size());
    block.lanes.resize(threads.size());
  }
  for (int i = 0; i < n; ++i) prepare(i);
  for (;;) {
    // Another order in each round: every step-th thread. The step and n have no common factor.
    int i = static_cast<int>(random() % static_cast<unsigned>(n));
    int step = 0;
    do step = static_cast<int>(random() % static_cast<unsigned>(n)) + 1;
    while (std::gcd(step, n) != 1);
    bool all_ended = true;
    for (int k = 0; k < n; ++k, i = (i + step) % n) {
      if (block.fibre(i).state == State::runs) enter(i);
      all_ended &= block.fibre(i).state == State::ended;
    }
    if (all_ended) return;
    if (!finish_exchanges()) finish_barrier();
  }
}

}  // namespace rondo::ptx
