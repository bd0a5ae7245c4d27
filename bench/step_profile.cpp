// Where a training step goes: the time in each kind of kernel, beside what this machine could do.
//
// A backend that times its calls stands in for the CPU's (set_backend). For each kind of kernel the
// table gives milliseconds a step, the arithmetic done against the measured rate of a large matrix
// product, and the memory touched (every operand once) against the measured rate of a large copy.
// Whichever of the two is near 100 % is the wall that the kernel runs against. The last rows are
// what no kernel explains (the tape, the allocator, glue), and the floor: the convolutions alone.
//
//   build/bin/step_profile --model resnet18 --each

#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

#include "autograd/grad_mode.h"
#include "autograd/ops/loss.h"
#include "optim/sgd.h"
#include "report.h"
#include "tensor/cpu/cpu_backend.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Row {
  double ms = 0, flops = 0, bytes = 0;
  std::int64_t calls = 0;
};

double bytes_of(const Tensor& x) {
  return x.defined() ? static_cast<double>(x.numel() * size_of(x.dtype())) : 0;
}

std::string shape_of(const Tensor& w, const Tensor& y, const Conv2dParams& p) {
  return concat(w.size(1) * p.groups, " to ", w.size(0), " channels, ", w.size(2), 'x', w.size(3),
                p.stride_h > 1 ? concat('/', p.stride_h) : "", ", out ", y.size(2), 'x', y.size(3));
}

/// The CPU's backend with a stopwatch around each kernel of a training step.
class TimedBackend final : public cpu::CpuBackend {
 public:
  bool each_shape = false;
  std::map<std::string, Row> rows;

  void fill(const Tensor& y, Scalar value) override {
    timed("fill", 0, {y}, [&] { CpuBackend::fill(y, value); });
  }
  void copy(const Tensor& x, const Tensor& y) override {
    timed("copy", 0, {x, y}, [&] { CpuBackend::copy(x, y); });
  }
  void unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params) override {
    timed("element-wise", 0, {x, y}, [&] { CpuBackend::unary(op, x, y, params); });
  }
  void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
              OpParams params) override {
    timed("element-wise", 0, {a, b, y}, [&] { CpuBackend::binary(op, a, b, y, params); });
  }
  void reduce(ReduceOp op, const Tensor& x, const Tensor& y) override {
    timed("reduce", 0, {x, y}, [&] { CpuBackend::reduce(op, x, y); });
  }
  void softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) override {
    timed("softmax", 0, {x, y}, [&] { CpuBackend::softmax(log, x, dim, y); });
  }
  void cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyParams& params,
                     const Tensor& lines) override {
    timed("cross-entropy", 0, {logits, lines},
          [&] { CpuBackend::cross_entropy(logits, target, params, lines); });
  }
  void cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                              const Tensor& lines, const CrossEntropyParams& params,
                              const Tensor& dlogits) override {
    timed("cross-entropy", 0, {logits, dlogits}, [&] {
      CpuBackend::cross_entropy_backward(dloss, logits, target, lines, params, dlogits);
    });
  }
  void matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y,
              Activation activation) override {
    const double flops = 2.0 * static_cast<double>(y.numel() * a.size(2));
    timed("matmul", flops, {a, c, y}, [&] { CpuBackend::matmul(a, c, bias, y, activation); });
  }

  void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
              const Conv2dParams& p) override {
    convolution("conv forward", w, y, p, {x, w, y}, [&] { CpuBackend::conv2d(x, w, bias, y, p); });
  }
  void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                             const Conv2dParams& p) override {
    convolution("conv backward input", w, dy, p, {dy, w, dx},
                [&] { CpuBackend::conv2d_backward_input(dy, w, dx, p); });
  }
  void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                              const Tensor& dbias, const Conv2dParams& p) override {
    convolution("conv backward weight", dw, dy, p, {dy, x, dw},
                [&] { CpuBackend::conv2d_backward_weight(dy, x, dw, dbias, p); });
  }

  void batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var, double momentum,
                  double eps, const BatchNormFusion& fusion, const Tensor& y, const Tensor& mean,
                  const Tensor& invstd) override {
    timed("batch norm forward", 0, {x, fusion.residual, y}, [&] {
      CpuBackend::batch_norm(x, gamma, beta, running_mean, running_var, momentum, eps, fusion, y,
                             mean, invstd);
    });
  }
  void batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& y, bool relu,
                           const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                           const Tensor& invstd, const Tensor& dx, const Tensor& dgamma,
                           const Tensor& dbeta, const Tensor& dresidual) override {
    timed("batch norm backward", 0, {dy, x, y, dx, dresidual}, [&] {
      CpuBackend::batch_norm_backward(dy, x, y, relu, gamma, beta, mean, invstd, dx, dgamma, dbeta,
                                      dresidual);
    });
  }

  void max_pool2d(const Tensor& x, const Tensor& y, const Tensor& indices,
                  const Pool2dParams& params) override {
    timed("pool", 0, {x, y, indices}, [&] { CpuBackend::max_pool2d(x, y, indices, params); });
  }
  void max_pool2d_backward(const Tensor& dy, const Tensor& indices, const Tensor& dx) override {
    timed("pool", 0, {dy, indices, dx}, [&] { CpuBackend::max_pool2d_backward(dy, indices, dx); });
  }
  void adaptive_avg_pool2d(const Tensor& x, const Tensor& y) override {
    timed("pool", 0, {x, y}, [&] { CpuBackend::adaptive_avg_pool2d(x, y); });
  }
  void adaptive_avg_pool2d_backward(const Tensor& dy, const Tensor& dx) override {
    timed("pool", 0, {dy, dx}, [&] { CpuBackend::adaptive_avg_pool2d_backward(dy, dx); });
  }
  void sgd_step(const Tensor& p, const Tensor& g, const Tensor& buffer, const Tensor& rates,
                const SgdParams& params) override {
    timed("optimizer", 0, {p, p, g, buffer, buffer},
          [&] { CpuBackend::sgd_step(p, g, buffer, rates, params); });
  }

 private:
  template <class F>
  void timed(const std::string& kind, double flops, std::initializer_list<Tensor> operands, F f) {
    if (inside_) return f();  // a kernel made of others counts as itself
    inside_ = true;
    auto start = Clock::now();
    f();
    inside_ = false;
    Row& row = rows[kind];
    row.ms += milliseconds_since(start);
    row.flops += flops;
    for (const Tensor& operand : operands) row.bytes += bytes_of(operand);
    ++row.calls;
  }
  /// Every one of the three convolutions multiplies each output position with each weight once.
  template <class F>
  void convolution(std::string kind, const Tensor& w, const Tensor& y, const Conv2dParams& p,
                   std::initializer_list<Tensor> operands, F f) {
    const std::int64_t products = y.numel() * (w.numel() / w.size(0));
    const double flops = 2.0 * static_cast<double>(products);
    if (each_shape) kind += ": " + shape_of(w, y, p);
    timed(kind, flops, operands, f);
  }

  bool inside_ = false;
};

/// The shortest of several runs, in milliseconds: what the machine can do when nobody disturbs it.
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
};

Machine measure_machine() {
  cpu::CpuBackend& cpu = cpu::CpuBackend::instance();
  const std::int64_t n = 1536, large = std::int64_t{1} << 26;
  Tensor a = randn({1, n, n}), b = randn({1, n, n}), c = Tensor::empty({1, n, n}, {});
  double product = best_of(10, [&] { cpu.matmul(a, b, Tensor(), c, Activation::none); });
  Tensor from = zeros({large}, {.dtype = f32}), into = zeros({large}, {.dtype = f32});
  double copy = best_of(5, [&] { cpu.copy(from, into); });
  return {2e-6 * static_cast<double>(n * n * n) / product,
          1e-6 * 2 * static_cast<double>(large) * 4 / copy};
}

struct Settings {
  std::string model = "resnet20", dtype = "f32", json;
  std::int64_t batch = 128, steps = 20;
  int threads = 0;
  bool each = false;
};

nlohmann::json profile(const Settings& s) {
  if (s.threads > 0) omp_set_num_threads(s.threads);
  manual_seed(1);
  bench::Workload work(s.model, s.batch);
  const DType dtype = parse_dtype(s.dtype);
  if (dtype != f32) bench::convert(work.model.get(), dtype);
  work.input = work.input.to(dtype);
  optim::SGD sgd(work.model.parameters(), {.lr = 1e-3, .momentum = 0.9});
  auto step = [&] {
    Tensor loss = cross_entropy(work.model(work.input), work.target);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
  };
  for (int i = 0; i < 3; ++i) step();  // kernels are made, memory is touched

  Machine machine = measure_machine();
  TimedBackend timed;
  timed.each_shape = s.each;
  Backend* before = set_backend(Device::cpu(), &timed);
  auto start = Clock::now();
  for (std::int64_t i = 0; i < s.steps; ++i) step();
  double total = milliseconds_since(start) / static_cast<double>(s.steps);
  set_backend(Device::cpu(), before);

  nlohmann::json result = {{"model", s.model},
                           {"batch", s.batch},
                           {"threads", omp_get_max_threads()},
                           {"matmul_gflops", machine.gflops},
                           {"copy_gb_per_s", machine.gb_per_s},
                           {"ms_per_step", total},
                           {"rows", nlohmann::json::array()}};
  double kernels = 0, convolutions = 0;
  for (const auto& [kind, row] : timed.rows) {
    const double ms = row.ms / static_cast<double>(s.steps);
    kernels += ms;
    if (kind.starts_with("conv ")) convolutions += ms;
    result["rows"].push_back({{"kernel", kind},
                              {"calls", row.calls / s.steps},
                              {"ms", ms},
                              {"gflops", 1e-6 * row.flops / row.ms},
                              {"gb_per_s", 1e-6 * row.bytes / row.ms}});
  }
  result["ms_outside_kernels"] = total - kernels;
  result["ms_convolutions"] = convolutions;
  return result;
}

void print(const nlohmann::json& r) {
  const double total = r["ms_per_step"], gflops = r["matmul_gflops"], gb = r["copy_gb_per_s"];
  std::printf("%s, batch %d, %d threads: %.1f ms a step, %.1f img/s\n",
              r["model"].get<std::string>().c_str(), r["batch"].get<int>(), r["threads"].get<int>(),
              total, 1e3 * r["batch"].get<double>() / total);
  std::printf("this machine: matrix product %.0f GFLOP/s, copy %.1f GB/s\n\n", gflops, gb);
  std::printf("| kernel | calls | ms | of the step | GFLOP/s | of matmul | GB/s | of copy |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  std::vector<nlohmann::json> rows = r["rows"];
  std::ranges::sort(rows, std::greater<>(),
                    [](const auto& row) { return row["ms"].template get<double>(); });
  for (const auto& row : rows) {
    const double ms = row["ms"], f = row["gflops"], b = row["gb_per_s"];
    std::printf("| %s | %d | %.2f | %.1f %% | %.0f | %.0f %% | %.1f | %.0f %% |\n",
                row["kernel"].get<std::string>().c_str(), row["calls"].get<int>(), ms,
                1e2 * ms / total, f, 1e2 * f / gflops, b, 1e2 * b / gb);
  }
  const double outside = r["ms_outside_kernels"], convolutions = r["ms_convolutions"];
  std::printf("| outside of kernels | | %.2f | %.1f %% | | | | |\n", outside,
              1e2 * outside / total);
  if (convolutions > 0) {
    std::printf("\nconvolutions alone: %.1f ms, %.1f img/s; the step runs at %.0f %% of that\n",
                convolutions, 1e3 * r["batch"].get<double>() / convolutions,
                1e2 * convolutions / total);
  }
}

int run(const Settings& s) {
  nlohmann::json result = profile(s);
  if (s.json != "-") print(result);
  bench::write_json(result, s.json);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app{"Shows where the time of a training step goes."};
  app.add_option("--model", s.model, "mlp, resnet20, resnet18, resnet50, ...")
      ->capture_default_str();
  app.add_option("--batch", s.batch, "images in a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--dtype", s.dtype, "f32, bf16 or f16: of weights and images")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  app.add_option("--steps", s.steps, "how many to measure")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--each", s.each, "a row for each shape of convolution");
  app.add_option("--threads", s.threads, "OpenMP threads; 0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--json", s.json, "write the result to this file; - is standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(s);
  } catch (const std::exception& error) {
    std::cerr << "step_profile: " << error.what() << "\n";
    return 1;
  }
}
