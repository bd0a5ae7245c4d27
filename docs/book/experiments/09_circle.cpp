// The gradient of README's net on four ranks: each has a quarter of the points, and the ring makes
// the average. Ranks are threads.
#include <rondo/rondo.h>

#include <iomanip>
#include <iostream>
#include <thread>

namespace rd = rondo;
namespace nn = rondo::nn;
namespace dist = rondo::dist;
using rondo::Tensor;

namespace {
constexpr std::size_t ranks = 4;
Tensor gradient(std::int64_t first, std::int64_t count);
void show(const std::vector<Tensor>& own, const std::vector<Tensor>& average,
          const std::vector<std::int64_t>& sent);
}  // namespace

int main() {
  std::vector<Tensor> own, average(ranks);
  for (int r = 0; r < 4; ++r) own.push_back(gradient(250 * r, 250));
  std::vector<std::int64_t> sent(ranks);
  dist::run_on_threads(ranks, [&](const std::shared_ptr<dist::Transport>& transport) {
    const auto r = static_cast<std::size_t>(transport->rank());
    const Tensor data = average[r] = own[r].clone();
    dist::ChunkBuffer scratch;
    const auto ring = dist::ring_all_reduce(*transport, scratch, data.data_ptr<float>(),
                                            data.numel(), rd::f32, dist::ReduceOp::avg);
    while (ring->poll() != dist::Poll::done) std::this_thread::yield();
    sent[r] = transport->bytes_sent();
  });
  show(own, average, sent);
}

namespace {

/// All 162 numbers of the gradient of the loss over some of the points.
Tensor gradient(std::int64_t first, std::int64_t count) {
  rd::manual_seed(1);  // each rank makes the same points and the same weights
  Tensor x = (rd::rand({1000, 2}) * 2.0 - 1.0).narrow(0, first, count);
  Tensor y = lt(sum(square(x), {1}), 0.6).to(rd::i64);
  nn::Sequential net{nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 2)};
  cross_entropy(net(x), y).backward();
  std::vector<Tensor> parts;
  for (const Tensor& p : net.parameters()) parts.push_back(p.grad().flatten());
  return rd::cat(parts, 0);
}

/// One of the numbers before and after the ring, and in a process that has all points.
void show(const std::vector<Tensor>& own, const std::vector<Tensor>& average,
          const std::vector<std::int64_t>& sent) {
  std::cout << "d loss / d b[0]  of 250 points   after the ring   bytes sent\n"
            << std::fixed << std::setprecision(3);
  for (std::size_t r = 0; r < ranks; ++r)
    std::cout << "rank " << r << std::setw(24) << own[r][160].item() << std::setw(17)
              << average[r][160].item() << std::setw(13) << sent[r] << "\n";
  const Tensor all = gradient(0, 1000);
  std::cout << "one process" << std::setw(36) << all[160].item()
            << "\nof 162 numbers the largest difference is "
            << (max(abs(all - average[0])).item() < 1e-6 ? "below" : "above") << " 1e-6\n";
}

}  // namespace
