#include "train/trace.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "tensor/creation.h"

namespace rondo::train {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

Nanoseconds now() {
  return std::chrono::duration_cast<Nanoseconds>(Trace::Clock::now().time_since_epoch());
}

/// What to add to this rank's clock to have rank 0's: rank 0 is asked for the time again and again;
/// its answer was made halfway through the round trip, and the shortest trip says so best.
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

Trace::Trace(dist::Communicator& comm) : comm_(comm) {
  // On one machine there is one clock.
  if (!comm.shares_memory()) offset_ = offset_to_rank_0(comm);
  comm.recorder()->set_capacity(most_spans);
  comm.barrier();
  start_ = Clock::now();
}

void Trace::add(const char* name, Clock::time_point begin, Clock::time_point end) {
  if (!is_full()) spans_.push_back({name, begin, end});
}

/// This rank's, as the text between the brackets of a JSON array.
std::string Trace::events() const {
  std::string text;
  auto put = [&](const nlohmann::json& event) {
    text += (text.empty() ? "" : ",\n") + event.dump();
  };
  auto microseconds = [](auto duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
  };
  // Of rank 0's clock, whatever that counts from.
  auto complete = [&](const std::string& name, const char* category, int lane,
                      Clock::time_point begin, Clock::time_point end) {
    if (begin < start_ || end < begin) return;
    put({{"name", name},
         {"cat", category},
         {"ph", "X"},
         {"ts", microseconds(begin.time_since_epoch() + offset_)},
         {"dur", microseconds(end - begin)},
         {"pid", comm_.rank()},
         {"tid", lane}});
  };
  auto name_of = [&](const char* what, int lane, const std::string& name) {
    put({{"name", what},
         {"ph", "M"},
         {"pid", comm_.rank()},
         {"tid", lane},
         {"args", {{"name", name}}}});
  };
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  name_of("process_name", 0, concat("rank ", comm_.rank(), " on ", host));
  name_of("thread_name", 0, "computing and waiting");
  name_of("thread_name", 1, "collectives");
  for (const Recorded& span : spans_)
    complete(span.name, std::string_view(span.name).starts_with("wait") ? "waiting" : "compute", 0,
             span.begin, span.end);
  for (const dist::FlightRecord& record : comm_.recorder()->records()) {
    if (record.state != dist::FlightRecord::done) continue;
    const auto begun = record.started != Clock::time_point() ? record.started : record.issued;
    complete(record.about.empty() ? text_of(record.signature)
                                  : concat(record.signature.name, " of ", record.about),
             "communication", 1, begun, record.finished);
  }
  return text;
}

void Trace::write(const std::filesystem::path& path) {
  const std::vector<std::string> of_ranks = comm_.all_gather_bytes(events());
  if (comm_.rank() == 0) {
    io::AtomicFile file(path.string());
    const std::string head = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    file.write(head.data(), head.size());
    for (std::size_t r = 0; r < of_ranks.size(); ++r) {
      if (r > 0) file.write(",\n", 2);
      file.write(of_ranks[r].data(), of_ranks[r].size());
    }
    file.write("\n]}\n", 4);
    file.commit();
  }
  comm_.barrier();
}

}  // namespace rondo::train
