// Measures the matrix products of a linear layer in f32: oneDNN's and rondo's own
// (tensor/cpu/packed_matmul.h) in turns on the same numbers, relative to the rate of a large
// product.

#include <omp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "extras/command_line.h"
#include "report.h"
#include "tensor/backend.h"
#include "tensor/cpu/packed_matmul.h"

namespace {

using namespace rondo;

struct Product {
  std::int64_t m, k, n;
  bool a_transposed, c_transposed;  // column-major in memory
};

Tensor matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  return transposed ? randn({1, columns, rows}).transpose(1, 2) : randn({1, rows, columns});
}

/// GFLOP/s of one call.
double rate_of(const Product& p, const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return 2e-9 * static_cast<double>(p.m * p.k * p.n) / seconds.count();
}

/// Medians of `repeat` calls each, in turns.
nlohmann::json measure(const Product& p, int repeat, double large) {
  const Tensor a = matrix(p.m, p.k, p.a_transposed), c = matrix(p.k, p.n, p.c_transposed),
               y = zeros({1, p.m, p.n});
  std::vector<double> theirs, ours;
  for (int i = 0; i < repeat; ++i) {
    theirs.push_back(rate_of(p, [&] { backend(y).matmul(a, c, {}, y); }));
    ours.push_back(rate_of(p, [&] { cpu::packed_matmul::matmul(a, c, {}, y); }));
  }
  const double onednn = bench::median(theirs), packed = bench::median(ours);
  std::printf("| %5lld x %4lld%s · %4lld x %4lld%s | %6.1f | %3.0f %% | %6.1f | %3.0f %% |\n",
              static_cast<long long>(p.m), static_cast<long long>(p.k), p.a_transposed ? "ᵀ" : " ",
              static_cast<long long>(p.k), static_cast<long long>(p.n), p.c_transposed ? "ᵀ" : " ",
              onednn, 100 * onednn / large, packed, 100 * packed / large);
  return {{"m", p.m},
          {"k", p.k},
          {"n", p.n},
          {"a_transposed", p.a_transposed},
          {"c_transposed", p.c_transposed},
          {"onednn_gflop_per_s", onednn},
          {"packed_gflop_per_s", packed}};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> widths{512, 784, 1024};
  std::vector<std::int64_t> batches{64, 1024}, outputs{512};
  int repeat = 100, threads = 0;
  std::string json;
  flags::CommandLine app(
      "Measures the matrix products of a linear layer, oneDNN and packed in turns.");
  app.add("--batch", batches, "rows of the inputs", flags::count());
  app.add("--outputs", outputs, "outputs of the layer", flags::count());
  app.add("--width", widths, "inputs of the layer", flags::count());
  app.add("--repeat", repeat, "calls of each product; the median counts", flags::count());
  app.add("--threads", threads, "OpenMP threads; 0: all", flags::threads());
  app.add("--json", json, "write the result to this file; - is standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  return bench::finish("matmul", json, [&] {
    for (const auto& [flag, sizes] :
         {std::pair{"--batch", batches}, {"--outputs", outputs}, {"--width", widths}})
      for (std::int64_t size : sizes)
        require(size % 16 == 0, flag, ": ", size, " is not a multiple of 16");
    // With this variable the backend uses oneDNN for all products.
    require(setenv("RONDO_PACKED_MATMUL", "0", 1) == 0, "the environment is full");
    if (threads > 0) omp_set_num_threads(threads);
    const Product cube{1536, 1536, 1536, false, false};
    const Tensor a = matrix(cube.m, cube.k, false), y = zeros(a.shape());
    std::vector<double> rates;
    for (int i = 0; i < 5; ++i)
      rates.push_back(rate_of(cube, [&] { backend(y).matmul(a, a, {}, y); }));
    const double large = bench::median(rates);
    std::printf("a large product: %.1f GFLOP/s\n\n", large);
    std::printf("| product | oneDNN, GFLOP/s | of the large one | packed | of the large one |\n");
    std::printf("| --- | --- | --- | --- | --- |\n");
    nlohmann::json rows = nlohmann::json::array();
    for (std::int64_t batch : batches)
      for (std::int64_t out : outputs)
        for (std::int64_t width : widths)
          for (const Product& p : {Product{batch, width, out, false, true},   // y = x wᵀ
                                   Product{batch, out, width, false, false},  // dx = dy w
                                   Product{out, batch, width, true, false}})  // dw = dyᵀ x
            rows.push_back(measure(p, repeat, large));
    bench::write_json({{"large_gflop_per_s", large}, {"products", rows}}, json);
  });
}
