// Measures one training step (or one inference): images per second on random data that stays in
// memory, so that only the framework is measured. bench/peers/train_step.py does the same steps in
// PyTorch. Run the two alternately (bench/compare.sh), since the machine's speed drifts.

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "extras/command_line.h"
#include "extras/quantization/prepare.h"
#include "optim/sgd.h"
#include "report.h"
#include "tensor/cuda.h"
#include "tensor/record_function.h"
#include "train/step.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string model = "resnet20", dtype = "f32", amp, device = "cpu", json;
  std::int64_t batch = 128, hidden = 512, steps = 0;
  int threads = 0;
  double seconds = 10;
  bool infer = false, graph = false, grad_checkpointing = false, turns = false, kernels = false;
};

/// Writes the kernels of one step after the first, in their order, with the bytes of their operands
/// and their FLOPs. bench/peers/gpu_forecast.py computes the time of a step on a GPU from them.
template <class Step>
void report_kernels(const Settings& s, Step step) {
  step();
  start_recording({.nested = true});
  step();
  nlohmann::json kernels = nlohmann::json::array();
  for (const RecordedThread& thread : stop_recording()) {
    for (const ProfileEvent& event : thread.events) {
      if (event.bytes == 0) continue;
      kernels.push_back({{"name", event.name}, {"bytes", event.bytes}, {"flops", event.flops}});
      if (s.json != "-")
        std::cout << event.name << ": " << event.bytes / 1e6 << " MB, " << event.flops / 1e9
                  << " GFLOP\n";
    }
  }
  bench::write_json({{"model", s.model}, {"batch", s.batch}, {"kernels", kernels}}, s.json);
}

/// Calls report(milliseconds of each step). The first steps, which make kernels and allocate
/// memory, are left out unless --steps counts them. With --turns it measures and reports once for
/// each line of standard input. On a GPU it times ten steps together, since the host runs ahead.
template <class Step, class Report>
void measure(const Settings& s, Device device, Step step, Report report) {
  const int together = device.is_cpu() ? 1 : 10;
  auto wait = [&] {
    if (device.is_cuda()) cuda::synchronize(device.index);
  };
  for (int i = 0; s.steps == 0 && i < (device.is_cpu() ? 3 : 20); ++i) step();
  wait();
  std::vector<double> times;
  auto enough = [&](double total) {
    return s.steps > 0 ? std::ssize(times) >= s.steps
                       : total >= s.seconds * 1e3 && times.size() >= 3;
  };
  auto turn = [&] {
    times.clear();
    for (double total = 0; !enough(total);) {
      auto start = Clock::now();
      for (int i = 0; i < together; ++i) step();
      wait();
      const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      total += ms;
      times.push_back(ms / together);
    }
    report(times);
  };
  if (!s.turns) return turn();
  for (std::string line; std::getline(std::cin, line);) turn();
}

/// Quantises to int8: the MLP dynamically, since it has only Linear layers; other models by ranges.
void quantize(nn::Module& model, const Tensor& x, const std::string& name) {
  model.eval();
  if (name == "mlp") {
    nn::quantize_dynamic(model);
    return;
  }
  NoGradGuard no_grad;
  nn::prepare(model, x);
  (void)model(x);
  nn::convert(model);
}

void report(const Settings& s, const std::vector<double>& times) {
  const double median = bench::median(times);
  nlohmann::json result = {{"framework", "rondo"},
                           {"model", s.model},
                           {"batch", s.batch},
                           {"hidden", s.hidden},
                           {"dtype", s.dtype},
                           {"amp", s.amp},
                           {"mode", s.infer ? "infer" : "train"},
                           {"device", s.device},
                           {"graph", s.graph},
                           {"threads", omp_get_max_threads()},
                           {"steps", times.size()},
                           {"ms_per_step", median},
                           {"img_per_s", 1e3 * static_cast<double>(s.batch) / median}};
  if (s.json != "-") {
    std::cout << s.model << ' ' << s.dtype << ' ' << (s.infer ? "inference" : "training")
              << ", batch " << s.batch << ", " << omp_get_max_threads() << " threads: " << median
              << " ms a step, " << result["img_per_s"].get<double>() << " img/s (median of "
              << times.size() << " steps)\n";
  }
  bench::write_json(result, s.json);
}

void run(const Settings& s) {
  require(!s.turns || s.json == "-", "--turns needs --json -");
  if (s.threads > 0) omp_set_num_threads(s.threads);
  manual_seed(1);
  bench::Workload work(s.model, s.batch, s.hidden, s.grad_checkpointing);
  nn::AnyModule& model = work.model;
  const bool in_bytes = s.dtype == "i8";
  require(!in_bytes || (s.infer && s.device == "cpu"), "--dtype i8 needs --infer and --device cpu");
  const DType dtype = in_bytes ? f32 : parse_dtype(s.dtype);
  if (dtype != f32) bench::convert(model.get(), dtype);
  if (in_bytes) quantize(model, work.input, s.model);
  const Device device = Device::parse(s.device);
  if (device.is_cuda()) cuda::require_device(device.index);
  require(device.is_cuda() || !s.graph, "--graph needs a GPU: --device cuda");
  model.to(device);
  const data::Batch batch{
      (is_floating(work.input.dtype()) ? work.input.to(dtype) : work.input).to(device),
      work.target.to(device)};
  const Tensor& x = batch.input;
  std::optional<optim::SGD> sgd;
  if (!s.infer) sgd.emplace(model.parameters(), optim::SgdOptions{.lr = 1e-3, .momentum = 0.9});

  std::optional<DType> amp;
  if (!s.amp.empty()) amp = parse_dtype(s.amp);
  auto forward = [&] {
    std::optional<Autocast> cast;
    if (amp) cast.emplace(device, *amp);
    return model(x);
  };

  auto timed = [&](auto step) {
    if (s.kernels) return report_kernels(s, step);
    measure(s, device, step, [&](const std::vector<double>& times) { report(s, times); });
  };
  if (s.infer) {
    model.get().eval();
    NoGradGuard no_grad;
    timed([&] { (void)forward(); });
  } else if (device.is_cuda()) {
    auto criterion = [](const Tensor& y, const Tensor& target) {
      return cross_entropy(y.to(f32), target);
    };
    train::TrainStep step(
        {.model = model, .optimizer = *sgd, .criterion = criterion, .amp = amp, .graph = s.graph});
    timed([&] {
      step(batch, {});
      (void)step.take_losses();
    });
  } else {
    timed([&] {
      Tensor loss = cross_entropy(forward().to(f32), batch.target);
      sgd->zero_grad();
      loss.backward();
      sgd->step();
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  flags::CommandLine app("Times one training step or one inference.");
  app.add("--model", s.model,
          "mlp, resnet20, resnet18, resnet50, lm512 (a language model of 512 tokens), lstm64 (64 "
          "steps)");
  app.add("--batch", s.batch, "images in a step", flags::count());
  app.add("--hidden", s.hidden, "width of the mlp", flags::count());
  app.add("--dtype", s.dtype, "f32, bf16, f16, or i8: quantised, with --infer",
          flags::one_of({"f32", "bf16", "f16", "i8"}));
  app.add("--amp", s.amp, "f32 weights, forward under autocast to this type: bf16 or f16",
          flags::one_of({"bf16", "f16"}));
  app.add("--grad-checkpointing", s.grad_checkpointing,
          "recompute each block's activations in backward");
  app.add("--infer", s.infer, "forward only, without a tape");
  app.add("--threads", s.threads, "OpenMP threads; 0: all", flags::threads());
  app.add("--device", s.device, "cpu, cuda or cuda:N");
  app.add("--graph", s.graph, "on a GPU: capture the step as one CUDA graph");
  app.add("--seconds", s.seconds, "how long to measure", flags::positive());
  app.add("--steps", s.steps, "measure so many steps, from the first on, instead of --seconds",
          flags::count());
  app.add("--turns", s.turns,
          "measure once for each line of standard input, for turns with another program");
  app.add("--kernels", s.kernels,
          "do not measure: list the kernels of one step with their bytes and FLOPs");
  app.add("--json", s.json, "write the result to this file; - is standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  return bench::finish("train_step", s.json, [&] { run(s); });
}
