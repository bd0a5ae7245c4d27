// Measures the cost of the profiler: a range without and during a recording, and a training step
// without and with a recording, alternately, so that other load on the machine affects both alike.
//
//   build/bin/profiler_cost --model resnet20

#include <chrono>
#include <iostream>

#include "autograd/ops/loss.h"
#include "extras/command_line.h"
#include "optim/sgd.h"
#include "report.h"
#include "train/profiler.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

template <class F>
double nanoseconds(F f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

/// Nanoseconds of one range: the median over many loops of `count` ranges.
double of_a_range(std::int64_t count) {
  std::vector<double> times;
  for (int round = 0; round < 9; ++round)
    times.push_back(nanoseconds([&] {
                      for (std::int64_t i = 0; i < count; ++i) const RecordFunction range("range");
                    }) /
                    static_cast<double>(count));
  return bench::median(times);
}

struct Settings {
  std::string model = "resnet20", json;
  std::int64_t batch = 128;
  int rounds = 30;
};

void run(const Settings& s) {
  manual_seed(1);
  bench::Workload work(s.model, s.batch);
  optim::SGD sgd(work.model.parameters(), {.lr = 1e-3, .momentum = 0.9});
  const auto step = [&] {
    Tensor loss = cross_entropy(work.model(work.input), work.target);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
  };
  for (int i = 0; i < 3; ++i) step();  // warm-up: makes kernels and allocates memory

  const double off = of_a_range(10'000'000);
  train::Profiler profiler({.max_events = 10'000'000});
  double on = 0;
  {
    const auto recording = profiler.start();
    on = of_a_range(100'000);
  }
  std::vector<double> plain, profiled;
  std::size_t events = 0;
  for (int i = 0; i < s.rounds; ++i) {
    plain.push_back(nanoseconds(step) * 1e-6);
    {
      const auto recording = profiler.start();
      profiled.push_back(nanoseconds(step) * 1e-6);
    }
    events = profiler.threads()[0].events.size();
  }
  const nlohmann::json result = {{"model", s.model},
                                 {"batch", s.batch},
                                 {"range_off_ns", off},
                                 {"range_on_ns", on},
                                 {"events_per_step", events},
                                 {"plain_ms_per_step", bench::median(plain)},
                                 {"profiled_ms_per_step", bench::median(profiled)}};
  if (s.json != "-")
    std::printf(
        "a range: %.2f ns without a recording, %.0f ns during a recording\n"
        "%s, batch %d: %.3f ms a step, %.3f ms with a recording of its %d events\n",
        off, on, s.model.c_str(), static_cast<int>(s.batch), bench::median(plain),
        bench::median(profiled), static_cast<int>(events));
  bench::write_json(result, s.json);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  flags::CommandLine app("Measures the cost of the profiler, without and during a recording.");
  app.add("--model", s.model, "mlp, resnet20, resnet18, ...");
  app.add("--batch", s.batch, "images in a step", flags::count());
  app.add("--rounds", s.rounds, "steps of each kind", flags::count());
  app.add("--json", s.json, "write the result to this file; - is standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  return bench::finish("profiler_cost", s.json, [&] { run(s); });
}
