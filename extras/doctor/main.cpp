// rondo-doctor: finds out why a program is slow or hangs.
//
//   build/bin/rondo-doctor
//   mpirun -np 4 build/bin/rondo-doctor --seconds 5 --json report.json
//
// Start it exactly like the program that has the problem: with the same hosts, mpirun flags and
// environment. It prints what each rank sees of its machine, MPI and GPUs; then how fast the ranks
// compute and communicate; then what is wrong and what to do. Each part is printed at once, so if
// the ranks hang, the last line shows how far they got.
//
// Exit status: 0 if nothing would break a run; 1 if something would; 2 for a wrong flag. Read next:
// findings.cpp, the problems that it detects.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "dist/launch/init.h"
#include "dist/launch/launcher.h"
#include "dist/transports/thread/thread_transport.h"
#include "extras/command_line.h"
#include "extras/doctor/findings.h"
#include "extras/doctor/machine.h"
#include "extras/doctor/measure.h"
#include "extras/doctor/network.h"
#include "extras/doctor/print.h"
#include "io/result_file.h"
#include "tensor/error.h"
#include "tensor/printable.h"

using namespace rondo;

namespace {

struct Options {
  double seconds = 3;
  std::string json;
};

/// The rank that the launcher has given this process; 0 without a launcher.
int launched_as() {
  try {
    const auto launcher = dist::read_launcher();  // may fail; that will be a finding
    return launcher ? launcher->rank : 0;
  } catch (const CommError&) {
    return 0;
  }
}

void show(bool prints, const std::string& text) {
  if (!prints) return;
  std::fputs(printable(text, "\n").c_str(), stdout);
  std::fflush(stdout);
}

/// The world of all ranks, or of this process alone if the ranks do not find each other.
std::shared_ptr<dist::Communicator> find_world(const Options& options, doctor::Facts& facts) {
  // After half a minute, the error names a rank that hangs.
  const auto timeout = std::chrono::milliseconds(static_cast<int>(30000 + options.seconds * 1000));
  try {
    // Do not save tuning results: they may be from a machine with a problem.
    auto comm = dist::init({.tune = false, .communicator = {.timeout = timeout}});
    facts.backend = comm->backend();
    return comm;
  } catch (const Error& error) {
    facts.init_error = error.what();
    facts.backend = "none";
    return std::make_shared<dist::Communicator>(dist::thread_transports(1)[0]);
  }
}

void gather(doctor::Facts& facts, const doctor::Rank& mine, dist::Communicator& comm) {
  facts.ranks.clear();
  for (const std::string& text : comm.all_gather_bytes(doctor::to_text(mine)))
    facts.ranks.push_back(doctor::rank_from_text(text));
}

int examine(const Options& options) {
  require(std::isfinite(options.seconds), "--seconds ", options.seconds, " is not a time");  // nan
  doctor::Facts facts;
  doctor::Rank mine;
  const bool speaks_early = launched_as() == 0 && options.json != "-";
  doctor::look_at_environment(mine);
  doctor::look_at_launcher(mine);
  show(speaks_early && !mine.launcher.empty(), "looking for the other ranks\n");
  auto comm = find_world(options, facts);
  comm->agree("--seconds", concat(options.seconds));
  // If the processes have not found each other, one report is enough.
  const bool reports = facts.init_error.empty() ? comm->rank() == 0 : launched_as() == 0;
  const bool prints = reports && options.json != "-";
  if (reports) io::check_result_file("--json", options.json);
  doctor::look_at_machine(mine);
  doctor::look_at_world(mine, *comm);
  gather(facts, mine, *comm);
  show(prints, describe_facts(facts));
  if (facts.init_error.empty()) {
    const double each = options.seconds / 3;
    doctor::measure_compute(mine, *comm, each);
    doctor::look_at_side_channel(mine, *comm);
    gather(facts, mine, *comm);
    facts.links = doctor::measure_links(*comm, each);
    facts.all_reduces = doctor::measure_all_reduces(*comm, each);
    show(prints, describe_measurements(facts));
  }
  const auto findings = doctor::find(facts);
  show(prints, describe_findings(findings));
  if (reports)
    io::write_result_file("--json", options.json, doctor::to_json(facts, findings) + "\n");
  return std::ranges::any_of(
      findings, [](const doctor::Finding& f) { return f.severity == doctor::Severity::broken; });
}

}  // namespace

int main(int argc, char** argv) {
  flags::CommandLine app("Examines the machines, MPI and GPUs of a run, and reports what is wrong",
                         "Exit status: 0 if nothing would break a run, 1 if something would or "
                         "rondo-doctor itself failed, 2 for a wrong flag.");
  Options options;
  app.add("--seconds", options.seconds,
          "how long to measure (3); if it is too short, a fast machine may be reported as slow",
          flags::number_that([](double v) { return v >= 0 && v <= 3600; }, "from 0 to 3600"));
  app.add("--json", options.json,
          "write the whole report to FILE; - is standard output, which then has nothing else");
  if (const auto end = app.read(argc, argv)) {
    const int rank = launched_as();
    if (end->status == 0) {
      show(rank == 0, end->text);
      return 0;
    }
    // The other ranks may have been started with other flags, so each rank prints its own error.
    const std::string who = rank == 0 ? "" : concat("rank ", rank, ": ");
    std::fprintf(stderr, "error: %s%s\n", who.c_str(), printable(end->text, "\n").c_str());
    return 2;
  }
  return dist::run([&] { return examine(options); });
}
