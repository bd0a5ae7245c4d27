#pragma once
// Trace: where the time of a training step goes, on every rank, as a picture: chrome://tracing and
// ui.perfetto.dev draw the file that `write` makes.
//
//   train::Trace trace(*comm);
//   {
//     const train::Trace::Span span(&trace, "forward");
//     ...
//   }
//   trace.write("trace.json");
//
// Each rank is a process whose lanes are: what it computes and waits for; its collectives, from
// when they began until they were over, named by the bucket of gradients that they carried; and
// those of each group. Overlap is what lies above each other. Ranks on several machines have clocks
// of their own; they are put on rank 0's by the shortest of several round trips.
//
// On a GPU spans are what the host did, which is mostly to put work into queues; collectives are
// where the GPU's own clock says that they were, a captured graph as a whole. Which ops a span's
// time goes to: train/profiler.h.

#include <chrono>
#include <deque>
#include <exception>
#include <filesystem>
#include <string>

#include "dist/collectives/communicator.h"

namespace rondo::train {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  /// Keeps the communicator's collectives from here on. It must outlive this. Where an exception
  /// ends this object before `write`, every rank that hears of it writes what it has kept itself,
  /// with what it had not come to the end of, to `if_it_fails` with its rank in the name:
  /// trace.rank1.json; empty: nowhere.
  explicit Trace(dist::Communicator& comm, std::filesystem::path if_it_fails = {});
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// From its construction to its end; null: nothing.
  class Span {
   public:
    Span(Trace* trace, const char* name)
        : trace_(trace),
          name_(name),
          begin_(trace != nullptr ? Clock::now() : Clock::time_point()) {}
    ~Span() {
      if (trace_ != nullptr) trace_->add(name_, begin_, Clock::now());
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Trace* trace_;
    const char* name_;
    Clock::time_point begin_;
  };
  /// `name` must live as long as this.
  void add(const char* name, Clock::time_point begin, Clock::time_point end);

  /// Writes what all ranks have kept, in Chrome's trace format, whole or not at all. Collective.
  /// Throws IoError.
  void write(const std::filesystem::path& path);

 private:
  // Of each lane the last so many are kept: viewers choke on more.
  static constexpr std::size_t most_spans = 200'000;
  struct Recorded {
    const char* name;
    Clock::time_point begin, end;
  };
  std::string events(bool with_unfinished) const;
  void write_own() const noexcept;  // of a run that fails
  void wait_for_collectives() const;

  dist::Communicator& comm_;
  Clock::time_point start_;
  std::chrono::nanoseconds offset_{0};  // to be added for rank 0's clock
  std::deque<Recorded> spans_;
  std::filesystem::path if_it_fails_;
  std::size_t capacity_before_ = 0;              // of the recorder
  int exceptions_ = std::uncaught_exceptions();  // under way already
};

}  // namespace rondo::train
