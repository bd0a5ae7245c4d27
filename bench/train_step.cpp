// How fast one training step (or one inference) is: images a second on random data that never
// leaves memory, so that nothing but the framework is measured. bench/peers/train_step.py does the
// same steps in PyTorch; run the two alternately (bench/compare.sh), the machine's speed drifts.

#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>

#include "autograd/grad_mode.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "nn/batch_norm.h"
#include "optim/sgd.h"
#include "report.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string model = "resnet20", dtype = "f32", json;
  std::int64_t batch = 128;
  int threads = 0;
  double seconds = 10;
  bool infer = false;
};

/// Weights in bf16, statistics and affine factors of the normalisation in f32.
void convert(nn::Module& model, DType dtype) {
  model.apply([&](nn::Module& module) {
    bool is_leaf = module.named_modules().size() == 1;
    if (is_leaf && dynamic_cast<nn::BatchNorm2d*>(&module) == nullptr) module.to(dtype);
  });
}

/// Milliseconds of each step, the first three (which make kernels and touch memory) left out.
template <class Step>
std::vector<double> measure(double seconds, Step step) {
  for (int i = 0; i < 3; ++i) step();
  std::vector<double> times;
  for (double total = 0; total < seconds * 1e3 || times.size() < 3; total += times.back()) {
    auto start = Clock::now();
    step();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return times;
}

int run(const Settings& s) {
  if (s.threads > 0) omp_set_num_threads(s.threads);
  manual_seed(1);
  bench::Workload work(s.model, s.batch);
  nn::AnyModule& model = work.model;
  DType dtype = parse_dtype(s.dtype);
  if (dtype != f32) convert(model.get(), dtype);
  Tensor x = work.input.to(dtype);
  optim::SGD sgd(model.parameters(), {.lr = 1e-3, .momentum = 0.9});

  std::vector<double> times;
  if (s.infer) {
    model.get().eval();
    NoGradGuard no_grad;
    times = measure(s.seconds, [&] { (void)model(x); });
  } else {
    times = measure(s.seconds, [&] {
      Tensor loss = cross_entropy(model(x).to(f32), work.target);
      sgd.zero_grad();
      loss.backward();
      sgd.step();
    });
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  double median = times[times.size() / 2];
  nlohmann::json result = {{"framework", "rondo"},
                           {"model", s.model},
                           {"batch", s.batch},
                           {"dtype", s.dtype},
                           {"mode", s.infer ? "infer" : "train"},
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
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app{"Times one training step or one inference."};
  app.add_option("--model", s.model, "mlp, resnet20, resnet18, resnet50, ...")
      ->capture_default_str();
  app.add_option("--batch", s.batch, "images in a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dtype", s.dtype, "f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app.add_flag("--infer", s.infer, "forward only, without a tape");
  app.add_option("--threads", s.threads, "OpenMP threads; 0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--seconds", s.seconds, "how long to measure")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--json", s.json, "write the result to this file; - is standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(s);
  } catch (const std::exception& error) {
    std::cerr << "train_step: " << error.what() << "\n";
    return 1;
  }
}
