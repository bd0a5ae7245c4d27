// Compares rondo's kernels with the GPU's limits: memory-bound kernels with the measured bandwidth
// of a copy (bytes read and written), matrix products and attention in TFLOP/s. Tensors have 256
// MiB, several times the L2 cache, and random data, never zeros. Fewer (--mib) only show that the
// program runs.

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include "autograd/grad_mode.h"
#include "extras/command_line.h"
#include "report.h"
#include "tensor/backend.h"
#include "tensor/cuda.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

/// Seconds of one call: the median of 9 samples, or `together`, of `together` calls each.
double seconds_of(int device, std::int64_t together, const std::function<void()>& call) {
  for (int i = 0; i < std::min<std::int64_t>(together, 5); ++i) call();
  std::vector<double> times;
  for (int sample = 0; sample < std::min<std::int64_t>(together, 9); ++sample) {
    cuda::synchronize(device);
    const auto start = Clock::now();
    for (int i = 0; i < together; ++i) call();
    cuda::synchronize(device);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count() /
                    static_cast<double>(together));
  }
  return bench::median(times);
}

class Report {
 public:
  Report(Device device, std::int64_t mib)
      : mib_(mib),
        bytes(mib << 20),
        together_(std::clamp<std::int64_t>(mib * 20 / 256, 1, 20)),
        device_(device) {}

  /// Measures the bandwidth with which the others are compared.
  void copy() {
    const Tensor x = random({bytes / 4}, f32), y = Tensor::empty_like(x);
    copy_rate_ = 2.0 * static_cast<double>(bytes) / seconds([&] { backend(x).copy(x, y); });
    std::cout << "copy: " << copy_rate_ / 1e12 << " TB/s\n";
    rows_["copy_bytes_per_s"] = copy_rate_;
  }
  /// `passes`: how many tensors of that size the call reads and writes.
  void row(const std::string& name, double passes, const std::function<void()>& call) {
    const double rate = passes * static_cast<double>(bytes) / seconds(call);
    std::cout << name << ": " << rate / 1e12 << " TB/s, " << 100 * rate / copy_rate_
              << " % of the copy\n";
    rows_["bandwidth"].push_back(
        {{"kernel", name}, {"bytes_per_s", rate}, {"of_copy", rate / copy_rate_}});
  }
  /// n = 8,192 with 256 MiB.
  void matmul(DType dtype) {
    const std::int64_t n = 32 * mib_;
    const Tensor a = random({1, n, n}, dtype), b = random({1, n, n}, dtype),
                 y = Tensor::empty_like(a);
    const double s = seconds([&] { backend(a).matmul(a, b, Tensor(), y); });
    const double rate = 2.0 * static_cast<double>(n * n * n) / s;
    std::cout << "matmul " << n << "^3 " << dtype << ": " << rate / 1e12 << " TFLOP/s\n";
    rows_["matmul"].push_back({{"dtype", name_of(dtype)}, {"n", n}, {"flop_per_s", rate}});
  }
  /// 8 x 16 heads of 2,048 queries and keys (with 256 MiB) of 64 features.
  void attention(DType dtype, bool is_causal) {
    const std::int64_t length = 8 * mib_;
    const Dims shape{8, 16, length, 64};
    const Tensor q = random(shape, dtype), k = random(shape, dtype), v = random(shape, dtype),
                 dy = random(shape, dtype), y = Tensor::empty_like(q), dq = Tensor::empty_like(q),
                 dk = Tensor::empty_like(q), dv = Tensor::empty_like(q);
    const Tensor lse = Tensor::empty({8, 16, length}, {.device = device_});
    const AttentionParams params{.scale = 0.125, .is_causal = is_causal};
    const double product =
        2.0 * 8 * 16 * 64 * static_cast<double>(length * length) / (is_causal ? 2 : 1);
    const auto row = [&](const char* what, int products, const std::function<void()>& call) {
      const double rate = products * product / seconds(call);
      const std::string name = concat(what, ' ', dtype, is_causal ? " causal" : "");
      std::cout << name << ": " << rate / 1e12 << " TFLOP/s\n";
      rows_["attention"].push_back({{"kernel", name}, {"flop_per_s", rate}});
    };
    Backend& gpu = backend(q);
    const auto backward = [&] { gpu.attention_backward(dy, q, k, v, params, y, lse, dq, dk, dv); };
    row("attention", 2, [&] { gpu.attention(q, k, v, params, y, lse); });
    row("attention_backward", 5, backward);
    cuda::set_deterministic(true);  // by rondo's kernels
    row("attention_backward_deterministic", 5, backward);
    cuda::set_deterministic(false);
  }
  void kernels(DType dtype) {
    const std::int64_t n = bytes / size_of(dtype), channels = 64;
    const Tensor x = random({n}, dtype), y = random({n}, dtype), z = Tensor::empty_like(x);
    const std::string suffix = concat(' ', dtype);
    Backend& gpu = backend(x);
    row("relu" + suffix, 2, [&] { gpu.unary(UnaryOp::relu, x, z); });
    row("gelu" + suffix, 2, [&] { gpu.unary(UnaryOp::gelu, x, z); });
    row("add" + suffix, 3, [&] { gpu.binary(BinaryOp::add, x, y, z); });
    row("relu_backward" + suffix, 3, [&] { gpu.binary(BinaryOp::relu_backward, x, y, z); });
    row("fill" + suffix, 1, [&] { gpu.fill(z, 1.5); });
    const Tensor sum = Tensor::empty({1}, {.dtype = dtype, .device = device_});
    row("sum" + suffix, 1, [&] { gpu.reduce(ReductionOp::sum, x, sum); });
    // Activations of a Transformer.
    const std::int64_t width = 1024;
    const Tensor rows = x.reshape({n / width, width}), grads = y.reshape(rows.shape()),
                 to = z.reshape(rows.shape());
    const Tensor of_rows = Tensor::empty({n / width, 1}, {.dtype = dtype, .device = device_}),
                 of_columns = Tensor::empty({1, width}, {.dtype = dtype, .device = device_});
    row("sum_of_rows" + suffix, 1, [&] { gpu.reduce(ReductionOp::sum, rows, of_rows); });
    row("sum_of_columns" + suffix, 1, [&] { gpu.reduce(ReductionOp::sum, rows, of_columns); });
    row("softmax" + suffix, 2, [&] { gpu.softmax(false, rows, 1, to); });
    row("softmax_backward" + suffix, 3, [&] { gpu.softmax_backward(false, grads, rows, 1, to); });
    row("transpose" + suffix, 2, [&] {
      gpu.copy(rows.transpose(0, 1), z.reshape({width, n / width}));
    });
    // Activations as batch norm sees them: channels last.
    const Tensor image = random({n / (channels * 64 * 64), channels, 64, 64}, dtype)
                             .contiguous(MemoryFormat::channels_last);
    const Tensor out = Tensor::empty_like(image), grad = Tensor::empty_like(image);
    const TensorOptions per_channel{.dtype = f32, .device = device_};
    const Tensor gamma = ones({channels}, per_channel), beta = zeros({channels}, per_channel),
                 mean = zeros({channels}, per_channel), invstd = ones({channels}, per_channel),
                 dgamma = zeros({channels}, per_channel), dbeta = zeros({channels}, per_channel);
    const BatchNormFusion relu{.residual = {}, .relu = true};
    // In 16 bits the kernel reads the relu's mask from the output, as in autograd.
    const Tensor y_of_mask = dtype == f32 ? Tensor() : out;
    // First rondo's kernels, then the faster of these and cuDNN's engines, if there are any.
    for (const char* which : {"", "_measured"}) {
      cuda::measure_plans(*which != 0);
      row(concat("batch_norm_relu", which, suffix), 3,
          [&] { gpu.batch_norm(image, gamma, beta, {}, {}, 0.1, 1e-5, relu, out, mean, invstd); });
      row(concat("batch_norm_relu_backward", which, suffix), 5, [&] {
        gpu.batch_norm_backward(out, image, y_of_mask, true, gamma, beta, mean, invstd, grad,
                                dgamma, dbeta, {});
      });
    }
    cuda::measure_plans(false);
    // The pooling of ResNet's stem: a quarter of the pixels remains, each with an index of 8 bytes.
    const Pool2dParams stem{
        .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1};
    const Dims halved{image.size(0), channels, 32, 32};
    auto pooled = [&](DType of) {
      return Tensor::empty(halved,
                           {.dtype = of, .device = device_, .format = MemoryFormat::channels_last});
    };
    const Tensor maxima = pooled(dtype), places = pooled(i64);
    const double passes = 1.25 + 2.0 / static_cast<double>(size_of(dtype));
    row("max_pool" + suffix, passes, [&] { gpu.max_pool2d(image, maxima, places, stem); });
    row("max_pool_backward" + suffix, passes,
        [&] { gpu.max_pool2d_backward(maxima, places, stem, grad); });
  }
  const nlohmann::json& rows() const { return rows_; }

 private:
  double seconds(const std::function<void()>& call) const {
    return seconds_of(device_.index, together_, call);
  }
  Tensor random(const Dims& sizes, DType dtype) const {
    return randn(sizes, {.dtype = dtype, .device = device_});
  }
  std::int64_t mib_, bytes, together_;  // of a tensor; calls of a sample
  Device device_;
  double copy_rate_ = 1;
  nlohmann::json rows_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string device_name = "cuda", json;
  std::int64_t mib = 256;
  flags::CommandLine app("Compares kernels with the GPU's limits.");
  app.add("--device", device_name, "cuda or cuda:N");
  app.add("--mib", mib, "size of a tensor; less than 256 only shows that the program runs",
          flags::whole_number(1, 256));
  app.add("--json", json, "write the result to this file; - is standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  return bench::finish("gpu_kernels", json, [&] {
    const Device device = Device::parse(device_name);
    require<DeviceError>(device.is_cuda(), "--device ", device_name, " is not a GPU");
    cuda::require_device(device.index);
    NoGradGuard no_grad;
    manual_seed(1);
    std::cout << cuda::description(device.index) << "\n";
    Report report(device, mib);
    report.copy();
    for (DType dtype : {f32, bf16}) report.kernels(dtype);
    for (DType dtype : {bf16, f16, f32}) report.matmul(dtype);
    for (DType dtype : {bf16, f32})
      for (bool is_causal : {false, true}) report.attention(dtype, is_causal);
    nlohmann::json result = report.rows();
    result["mib"] = mib;
    result["gpu"] = cuda::description(device.index);
    bench::write_json(result, json);
  });
}
