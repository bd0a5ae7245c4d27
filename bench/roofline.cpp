// Shows the time of each kernel of a step, and compares it with the limits of this machine.
//
// A recording (tensor/record_function.h) gives the time, the arithmetic and the memory of each
// kernel of some steps. A kernel's floor is the longer one of two times: its arithmetic at the
// measured rate of a large matrix product, and its operands, each read or written once, at the
// measured rate of a large copy. The floor of the step is the sum over its kernels; the tape, the
// allocator and glue code have no floor.
//
// A kernel may be faster than its floor, and above 100 % of a rate. Winograd's convolutions count
// as direct ones but need a quarter of the multiplications, and the last-level cache is faster than
// memory.
//
// The copy's stores bypass the caches. An ordinary store first reads the line that it overwrites.
// The memory then transfers one and a half times the operands of a copy, and the copy reaches only
// about two thirds of the rate. That is a cost of the kernel, not a limit of the machine.
//
//   build/bin/roofline --model resnet18 --dtype bf16 --each

#include <omp.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/loss.h"
#include "extras/command_line.h"
#include "optim/sgd.h"
#include "report.h"
#include "tensor/cpu/cpu_backend.h"
#include "train/profiler.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string model = "resnet20", dtype = "f32", json;
  std::int64_t batch = 128, steps = 20;
  int threads = 0;
  bool each = false, infer = false;
};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The shortest of several runs, in milliseconds: the time without other load on the machine.
template <class F>
double best_of(int runs, F f) {
  f();
  double best = 1e300;
  for (int i = 0; i < runs; ++i) {
    auto start = Clock::now();
    f();
    best = std::min(best, milliseconds_since(start));
  }
  return best;
}

struct Machine {
  double gflops, gb_per_s;

  double floor_ms(double flops, double bytes) const {
    return 1e-6 * std::max(flops / gflops, bytes / gb_per_s);
  }
};

/// Copies `n` floats, a multiple of 16, with stores that bypass the caches if the processor has
/// them. Both pointers are aligned like tensors.
void copy_past_caches(const float* from, float* into, std::int64_t n) {
#ifdef __SSE2__
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (std::int64_t line = 0; line < n; line += 16) {
      for (std::int64_t i = line; i < line + 16; i += 4)
        _mm_stream_ps(into + i, _mm_load_ps(from + i));
    }
    _mm_sfence();  // waits for the stores
  }
#else
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < n; ++i) into[i] = from[i];
#endif
}

/// Measures the rates of products of `dtype` and of copies of 256 MiB, many times a last-level
/// cache. The copy's rate counts bytes read and bytes written.
Machine measure_machine(DType dtype) {
  cpu::CpuBackend& cpu = cpu::CpuBackend::instance();
  const std::int64_t n = 1536, large = std::int64_t{1} << 26;
  Tensor a = randn({1, n, n}).to(dtype), b = randn({1, n, n}).to(dtype);
  Tensor c = Tensor::empty({1, n, n}, {.dtype = dtype});
  double product = best_of(10, [&] { cpu.matmul(a, b, Tensor(), c, Activation::none); });
  Tensor from = zeros({large}, {.dtype = f32}), into = zeros({large}, {.dtype = f32});
  double copy =
      best_of(8, [&] { copy_past_caches(from.data_ptr<float>(), into.data_ptr<float>(), large); });
  return {2e-6 * static_cast<double>(n * n * n) / product,
          1e-6 * 2 * static_cast<double>(large) * 4 / copy};
}

struct Row {
  double ms = 0, flops = 0, bytes = 0, floor = 0;
  std::int64_t calls = 0;
};

/// The kernels of a recording, by name, or by name and shapes. A kernel is an event that counts
/// memory. Copies and conversions inside it are part of its time and its work.
std::map<std::string, Row> kernels_of(const train::Profiler& profiler, const Machine& machine,
                                      bool each) {
  std::map<std::string, Row> rows;
  const std::vector<ProfileEvent>& events = profiler.threads().front().events;
  auto is_inside_kernel = [&](const ProfileEvent& event) {
    std::int32_t around = event.parent;
    while (around >= 0 && events[static_cast<std::size_t>(around)].bytes == 0)
      around = events[static_cast<std::size_t>(around)].parent;
    return around >= 0;
  };
  for (const ProfileEvent& event : events) {
    if (event.bytes == 0 || is_inside_kernel(event)) continue;
    Row& row = rows[each ? concat(event.name, ' ', event.shapes) : std::string(event.name)];
    row.ms += 1e-6 * static_cast<double>(event.end - event.begin);
    row.flops += event.flops;
    row.bytes += event.bytes;
    row.floor += machine.floor_ms(event.flops, event.bytes);
    ++row.calls;
  }
  return rows;
}

nlohmann::json measure(const Settings& s) {
  if (s.threads > 0) omp_set_num_threads(s.threads);
  manual_seed(1);
  const DType dtype = parse_dtype(s.dtype);
  bench::Workload work(s.model, s.batch);
  optim::SGD sgd(work.model.parameters(), {.lr = 1e-3, .momentum = 0.9});
  if (s.infer) work.model.get().eval();
  auto forward = [&] {
    std::optional<Autocast> cast;
    if (dtype != f32) cast.emplace(Device::cpu(), dtype);
    return work.model(work.input);
  };
  auto step = [&] {
    if (s.infer) {
      NoGradGuard no_grad;
      (void)forward();
      return;
    }
    Tensor loss = cross_entropy(forward().to(f32), work.target);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
  };
  for (int i = 0; i < 3; ++i) step();  // warm-up: makes kernels and allocates memory

  const Machine machine = measure_machine(dtype);
  train::Profiler profiler({.record_shapes = s.each, .nested = true});
  {
    const auto recording = profiler.start();
    for (std::int64_t i = 0; i < s.steps; ++i) {
      step();
      profiler.step();
    }
  }
  const auto steps = static_cast<double>(s.steps);
  nlohmann::json result = {{"model", s.model},
                           {"dtype", s.dtype},
                           {"mode", s.infer ? "infer" : "train"},
                           {"batch", s.batch},
                           {"threads", omp_get_max_threads()},
                           {"matmul_gflops", machine.gflops},
                           {"copy_gb_per_s", machine.gb_per_s},
                           {"ms_per_step", profiler.total_ms() / steps},
                           {"rows", nlohmann::json::array()}};
  double kernels = 0, floor = 0, convolutions = 0, convolutions_floor = 0;
  for (const auto& [kernel, row] : kernels_of(profiler, machine, s.each)) {
    kernels += row.ms / steps;
    floor += row.floor / steps;
    if (kernel.starts_with("conv2d")) {
      convolutions += row.ms / steps;
      convolutions_floor += row.floor / steps;
    }
    result["rows"].push_back({{"kernel", kernel},
                              {"calls", row.calls / s.steps},
                              {"ms", row.ms / steps},
                              {"floor_ms", row.floor / steps},
                              {"flops", row.flops / steps},
                              {"bytes", row.bytes / steps},
                              {"of_matmul", 1e-6 * row.flops / row.ms / machine.gflops},
                              {"of_copy", 1e-6 * row.bytes / row.ms / machine.gb_per_s}});
  }
  result["ms_outside_kernels"] = profiler.total_ms() / steps - kernels;
  result["floor_ms"] = floor;
  result["ms_convolutions"] = convolutions;
  result["floor_ms_convolutions"] = convolutions_floor;
  return result;
}

void print(const nlohmann::json& r) {
  const double total = r["ms_per_step"], gflops = r["matmul_gflops"], gb = r["copy_gb_per_s"];
  std::printf("%s, %s, batch %d, %d threads: %.1f ms a step, %.1f img/s\n",
              r["model"].get<std::string>().c_str(), r["dtype"].get<std::string>().c_str(),
              r["batch"].get<int>(), r["threads"].get<int>(), total,
              1e3 * r["batch"].get<double>() / total);
  std::printf("this machine: matrix product %.0f GFLOP/s, copy %.1f GB/s\n\n", gflops, gb);
  std::printf(
      "| kernel | calls | ms | of the step | floor, ms | GFLOP | of matmul | MB | of copy |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  std::vector<nlohmann::json> rows = r["rows"];
  std::ranges::sort(rows, std::greater<>(),
                    [](const auto& row) { return row["ms"].template get<double>(); });
  for (const auto& row : rows) {
    const double ms = row["ms"], of_matmul = row["of_matmul"], of_copy = row["of_copy"];
    std::printf("| %s | %d | %.2f | %.1f %% | %.2f | %.2f | %.0f %% | %.1f | %.0f %% |\n",
                row["kernel"].get<std::string>().c_str(), row["calls"].get<int>(), ms,
                1e2 * ms / total, row["floor_ms"].get<double>(), 1e-9 * row["flops"].get<double>(),
                1e2 * of_matmul, 1e-6 * row["bytes"].get<double>(), 1e2 * of_copy);
  }
  const double outside = r["ms_outside_kernels"], floor = r["floor_ms"];
  std::printf("| outside of kernels | | %.2f | %.1f %% | | | | | |\n", outside,
              1e2 * outside / total);
  std::printf("| step | | %.2f | | %.2f | | | | |\n\nthe floor is %.0f %% of the step", total,
              floor, 1e2 * floor / total);
  if (const double convolutions = r["ms_convolutions"]; convolutions > 0) {
    std::printf("; convolutions alone: %.1f ms, floor %.1f ms", convolutions,
                r["floor_ms_convolutions"].get<double>());
  }
  std::printf("\n");
}

void run(const Settings& s) {
  nlohmann::json result = measure(s);
  if (s.json != "-") print(result);
  bench::write_json(result, s.json);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  flags::CommandLine app("Compares each kernel of a step with the limits of this machine.");
  app.add("--model", s.model, "mlp, resnet20, resnet18, resnet50, ...");
  app.add("--dtype", s.dtype, "f32, or bf16: forward under autocast",
          flags::one_of({"f32", "bf16"}));
  app.add("--batch", s.batch, "images in a step", flags::count());
  app.add("--steps", s.steps, "number of steps to measure", flags::count());
  app.add("--infer", s.infer, "forward only, without a tape");
  app.add("--each", s.each, "a row for each shape");
  app.add("--threads", s.threads, "OpenMP threads; 0: all", flags::threads());
  app.add("--json", s.json, "write the result to this file; - is standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  return bench::finish("roofline", s.json, [&] { run(s); });
}
