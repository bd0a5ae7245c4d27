// How a world ends when a rank fails. A rank that throws sends its error message to all other ranks
// and waits for theirs. If all ranks have failed (a wrong flag, a loss that is NaN everywhere),
// they end together, and for each distinct message the lowest rank prints it, unless that rank only
// repeats another rank's message. If some ranks have not failed, the world is aborted after a
// moment: the launcher ends the ranks that still compute or wait.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "dist/launch/environment.h"
#include "dist/launch/init.h"
#include "dist/launch/launcher.h"
#include "dist/launch/world.h"
#include "tensor/home_process.h"
#include "tensor/own_file.h"
#include "tensor/printable.h"

namespace rondo::dist {
namespace {

constexpr int failure_tag = Transport::tag_limit - 1;
constexpr std::size_t sentence_bytes = 2048;
constexpr auto grace = std::chrono::seconds(2);
constexpr auto head_start = std::chrono::milliseconds(300);  // for ranks that fail by themselves
constexpr auto between_aborts = std::chrono::milliseconds(100);
constexpr auto patience_to_abort = std::chrono::seconds(1),
               patience_at_exit = std::chrono::seconds(10),
               patience_out_of_step = std::chrono::seconds(1);

std::atomic<int> unfinished = 0;         // in this process
std::atomic<bool> others_write = false;  // another rank said so when it failed

std::mutex world_mutex;
World& the_world() {
  // Never destroyed: it must outlive every static that might fail.
  static auto* all = new World;
  return *all;
}

/// The process in which the world was made.
const HomeProcess& home() {
  static const HomeProcess process;
  return process;
}

std::string named(const std::string& rank, const std::string& sentence) {
  return sentence.starts_with("rank ") ? sentence : concat(rank, ": ", sentence);
}

void print(const std::string& rank, int size, bool all, const std::string& sentence) {
  const std::string text = size == 1 || all ? sentence : named(rank, sentence);
  std::fprintf(stderr, "error: %s\n", printable(text, "\n").c_str());
  std::fflush(stderr);
}

// Returns every rank's error message (its last byte tells whether the rank still writes). Returns
// an empty vector if not all ranks failed within the grace period, or if one has ended and will
// send nothing. After `head_start`, the side channel tells the ranks that have not failed; those
// that wait in a collective then fail, with this rank's message in theirs.
std::vector<std::string> exchange(Transport& transport, const std::shared_ptr<Watch>& watch,
                                  const std::string& mine) {
  // If a rank has ended, the exchange cannot succeed, and MPI itself may wait for that rank.
  if (watch != nullptr && !watch->ended().empty()) return {};
  int n = transport.world_size(), r = transport.rank();
  std::vector<char> out(sentence_bytes, 0);
  std::memcpy(out.data(), mine.data(), std::min(mine.size(), sentence_bytes - 2));
  out.back() = unfinished > 0 ? 1 : 0;
  std::vector<std::vector<char>> in(n, std::vector<char>(sentence_bytes, 0));
  std::vector<Request> requests;
  for (int peer = 0; peer < n; ++peer) {
    if (peer == r) continue;
    requests.push_back(transport.send(peer, failure_tag, out.data(), sentence_bytes));
    requests.push_back(transport.recv(peer, failure_tag, in[peer].data(), sentence_bytes));
  }
  const auto begin = Clock::now();
  bool all = false, told = watch == nullptr;
  while (!all && Clock::now() < begin + grace) {
    all = true;
    for (Request& request : requests) all &= transport.test(request);
    if (all) break;
    if (watch != nullptr && !watch->ended().empty()) break;
    if (!told && Clock::now() > begin + head_start) {
      watch->tell(named(transport.name_of(r), mine));
      told = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (Request& request : requests) transport.abandon(request);
  if (!all) return {};
  in[r] = out;
  std::vector<std::string> sentences;
  for (int peer = 0; peer < n; ++peer) {
    sentences.emplace_back(in[peer].data());
    if (peer != r && in[peer].back() != 0) others_write = true;
  }
  return sentences;
}

// After a failure this rank still calls MPI: to send messages, to abort, or to finalize at exit,
// possibly with a half-done collective. If MPI does not return, the process ends anyway, once it
// has written its data. If another rank still writes, it waits until the launcher ends it. Rank 0
// ends first, since several ranks at once may crash or hang mpirun (see `fail`).
void end_within(std::chrono::seconds patience, int rank) {
  std::thread([patience, rank] {
    std::this_thread::sleep_for(patience);
    if (rank != 0) std::this_thread::sleep_for(head_start);
    while (unfinished > 0 || others_write)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::_Exit(EXIT_FAILURE);
  }).detach();
}

// Before there is a world, only the launcher's environment tells this rank's number, if it is
// valid.
int fail_alone(const std::string& sentence) {
  std::optional<Launcher> launcher;
  try {
    launcher = read_launcher();
  } catch (const std::exception&) {  // `sentence` already reports this
  }
  print(concat("rank ", launcher ? launcher->rank : 0), launcher ? launcher->size : 1, false,
        sentence);
  return EXIT_FAILURE;
}

/// Writes to the folder in RONDO_FLIGHT_RECORD, if it is set.
void write_flight_record(const FlightRecorder& recorder, int rank, const std::string& sentence) {
  std::filesystem::path path;
  try {
    path = folder_from_environment("RONDO_FLIGHT_RECORD");
  } catch (const IoError& error) {
    if (sentence != error.what())
      std::fprintf(stderr, "warning: %s\n", printable(error.what()).c_str());
  }
  if (path.empty()) return;
  path /= concat("rank", rank, ".txt");
  try {
    OwnFile(path.string(), OwnFile::Mode::replace)
        .write(concat(sentence, "\n\nthe last collectives of rank ", rank, ":\n", recorder.text()));
  } catch (const IoError& error) {
    std::fprintf(stderr, "warning: %s\n", printable(error.what()).c_str());
  }
}

int fail(const std::string& sentence) {
  if (!home().is_here()) {  // a child that a rank has forked is not a rank
    print("", 1, true, sentence);
    return EXIT_FAILURE;
  }
  const auto [transport, watch, recorder] = world();
  if (!transport) return fail_alone(sentence);
  int n = transport->world_size(), r = transport->rank();
  if (recorder) write_flight_record(*recorder, r, sentence);
  if (n > 1) end_within(patience_at_exit, r);
  std::vector<std::string> all;
  try {
    if (n > 1) all = exchange(*transport, watch, sentence);
  } catch (const std::exception&) {
    all.clear();  // the transport has failed: abort below
  }
  if (n > 1 && all.empty()) {
    print(transport->name_of(r), n, false, sentence);
    // All ranks that wait learn of it at about the same time, and get time to print before the
    // launcher ends them. They abort one after another: several at once may crash or hang mpirun
    // (Open MPI 4.1.4), and the first abort suffices.
    if (watch != nullptr) std::this_thread::sleep_for(head_start);
    std::this_thread::sleep_for(between_aborts * (r % 10));
    end_within(patience_to_abort, r);
    transport->abort(EXIT_FAILURE);
    return EXIT_FAILURE;
  }
  // A message that ends in another rank's message only repeats it.
  bool equal = true, first = true, heard = false;
  for (int peer = 0; peer < n && n > 1; ++peer) {
    equal &= all[peer] == all[0];
    if (peer < r) first &= all[peer] != all[r];
    if (all[peer] != all[r])
      heard |= all[r].ends_with(": " + named(transport->name_of(peer), all[peer]));
  }
  if (first && !heard) print(transport->name_of(r), n, equal, sentence);
  // Everything has been reported: a rank that ends before this one has finalized MPI is not a
  // failure.
  set_world({.transport = transport, .watch = nullptr, .recorder = recorder});
  // MPI cannot finalize with the half-done collectives of ranks that failed in different ways.
  if (!equal) end_within(patience_out_of_step, r);
  return EXIT_FAILURE;
}

void end_watch_at_exit() { set_world({.transport = world().transport}); }

}  // namespace

void set_world(World all) {
  home();
  at_exit_here<end_watch_at_exit>();
  {
    std::lock_guard lock(world_mutex);
    std::swap(the_world(), all);
  }
  // The former world ends here, without the lock: closing a side channel takes time.
}

World world() {
  std::lock_guard lock(world_mutex);
  return the_world();
}

Unfinished::Unfinished() { ++unfinished; }
Unfinished::~Unfinished() { --unfinished; }

int run(const std::function<int()>& body) {
  try {
    const int status = body();
    // If the output goes to a full disk, the program must not report success.
    std::cout.flush();
    require<IoError>(
        status != 0 || (std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0),
        "standard output cannot be written");
    return status;
  } catch (const std::exception& e) {
    return fail(e.what());
  } catch (...) {
    return fail("an exception that is not a std::exception");
  }
}

}  // namespace rondo::dist
