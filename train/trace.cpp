#include "train/trace.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "dist/launch/host.h"
#include "tensor/creation.h"
#include "train/chrome_trace.h"

namespace rondo::train {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

Nanoseconds now() {
  return std::chrono::duration_cast<Nanoseconds>(TimelineTrace::Clock::now().time_since_epoch());
}

/// The difference between rank 0's clock and this rank's. Asks rank 0 for its time repeatedly, and
/// assumes that the answer was made halfway through the round trip. The shortest round trip is the
/// most precise.
Nanoseconds offset_to_rank_0(dist::Communicator& comm) {
  constexpr int trips = 20;
  const Tensor time = zeros({1}, {.dtype = i64});
  Nanoseconds offset{0}, shortest = Nanoseconds::max();
  for (int peer = 1; peer < comm.world_size(); ++peer) {
    for (int trip = 0; trip < trips; ++trip) {
      if (comm.rank() == 0) {
        comm.recv(time, peer);
        *time.data_ptr<std::int64_t>() = now().count();
        comm.send(time, peer);
      } else if (comm.rank() == peer) {
        const Nanoseconds asked = now();
        comm.send(time, 0);
        comm.recv(time, 0);
        const Nanoseconds answered = now();
        if (answered - asked >= shortest) continue;
        shortest = answered - asked;
        offset = Nanoseconds(*time.data_ptr<std::int64_t>()) - (asked + answered) / 2;
      }
    }
  }
  return offset;
}

}  // namespace

TimelineTrace::TimelineTrace(dist::Communicator& comm, std::string if_it_fails)
    : comm_(comm), if_it_fails_(std::move(if_it_fails)) {
  // Ranks on one machine share the clock.
  if (!comm.shares_memory()) offset_ = offset_to_rank_0(comm);
  capacity_before_ = comm.recorder()->set_capacity(most_spans);
  comm.barrier();
  start_ = Clock::now();
}

TimelineTrace::~TimelineTrace() {
  if (std::uncaught_exceptions() > exceptions_) write_own();
  comm_.recorder()->set_capacity(capacity_before_);
}

void TimelineTrace::write_own() const noexcept {
  if (if_it_fails_.empty()) return;
  try {
    std::filesystem::path path = if_it_fails_;
    path.replace_extension(concat(".rank", comm_.rank(), path.extension().string()));
    ChromeTraceFile file(path);
    file.add(events(true));
    file.commit();
  } catch (const std::exception&) {
    // The user should see the original failure, not this one.
  }
}

void TimelineTrace::add(const char* name, Clock::time_point begin, Clock::time_point end) {
  if (spans_.size() == most_spans) spans_.pop_front();
  spans_.push_back({name, begin, end});
}

/// This rank's events, in times of rank 0's clock.
std::string TimelineTrace::events(bool with_unfinished) const {
  // Start where both lanes are complete: the records of other communicators may have displaced
  // earlier ones.
  const auto records = comm_.recorder()->records();
  Clock::time_point first = start_;
  if (spans_.size() == most_spans) first = std::max(first, spans_.front().begin);
  if (comm_.recorder()->is_full() && !records.empty())
    first = std::max(first, records.front().issued);
  ChromeTrace trace;
  auto complete = [&](const std::string& name, const char* category, int lane,
                      Clock::time_point begin, Clock::time_point end,
                      const ChromeTrace::Args& args = {}) {
    if (begin < first || end < begin) return;
    trace.complete(name, category, comm_.rank(), lane, begin.time_since_epoch() + offset_,
                   end - begin, args);
  };
  trace.name_process(comm_.rank(), concat("rank ", comm_.rank(), " on ", dist::host_name()));
  trace.name_thread(comm_.rank(), 0, "computing and waiting");
  trace.name_thread(comm_.rank(), 1, "collectives");
  std::map<std::string, int> lanes = {{"", 1}};
  for (const Recorded& span : spans_)
    complete(span.name, std::string_view(span.name).starts_with("wait") ? "waiting" : "compute", 0,
             span.begin, span.end);
  static constexpr const char* states[] = {" (not started)", " (unfinished)", "", " (failed)"};
  const auto end = Clock::now();
  for (const dist::FlightRecord& record : records) {
    if (record.state != dist::FlightRecord::done && !with_unfinished) continue;
    const auto [lane, is_new] = lanes.try_emplace(record.group, static_cast<int>(lanes.size()) + 1);
    if (is_new)
      trace.name_thread(comm_.rank(), lane->second, concat("collectives of group ", record.group));
    const auto begun = record.started != Clock::time_point() ? record.started : record.issued;
    const std::string name = record.about.empty()
                                 ? text_of(record.signature)
                                 : concat(record.signature.name, " of ", record.about);
    complete(
        name + states[record.state], "communication", lane->second, begun,
        record.finished != Clock::time_point() ? record.finished : end,
        {{"queued ms", std::chrono::duration<double, std::milli>(begun - record.issued).count()}});
  }
  return trace.events();
}

/// The host learns a little later when the last collectives of a GPU have finished.
void TimelineTrace::wait_for_collectives() const {
  const auto is_over = [](const dist::FlightRecord& record) {
    return record.state >= dist::FlightRecord::done;
  };
  const auto deadline = Clock::now() + std::chrono::milliseconds(200);
  while (!std::ranges::all_of(comm_.recorder()->records(), is_over) && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void TimelineTrace::write(const std::string& path) {
  if_it_fails_.clear();
  wait_for_collectives();
  const std::string mine = events(false);
  const std::vector<std::string> sizes = comm_.all_gather_bytes(std::to_string(mine.size()));
  // One rank at a time, and only to rank 0, because the texts may be large.
  auto text_of_rank = [&](int rank) {
    const auto size = static_cast<std::int64_t>(std::stoull(sizes[static_cast<std::size_t>(rank)]));
    const Tensor bytes = Tensor::empty({size}, {.dtype = u8});
    comm_.recv(bytes, rank);
    return std::string(static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(size));
  };
  if (comm_.rank() == 0) {
    ChromeTraceFile file(path);
    file.add(mine);
    for (int rank = 1; rank < comm_.world_size(); ++rank) file.add(text_of_rank(rank));
    file.commit();
  } else {
    const Tensor bytes = Tensor::empty({std::ssize(mine)}, {.dtype = u8});
    std::copy(mine.begin(), mine.end(), static_cast<char*>(bytes.data_ptr()));
    comm_.send(bytes, 0);
  }
  comm_.barrier();
}

}  // namespace rondo::train
