// Twelve points of the circle as batches of a loader with 0, 1 and 3 workers, and of one that
// resumes.
//
//   build/bin/book/08_loader [trace.json]     also writes when each thread made or waited for a
//   batch
#include <rondo/rondo.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "train/profiler.h"

namespace rd = rondo;
namespace data = rondo::data;
using rondo::Tensor;

namespace {

using Milliseconds = std::chrono::milliseconds;
constexpr std::uint64_t seed = 1;

/// The first points of README's twenty lines, and whether they lie in the circle.
std::shared_ptr<data::TensorDataset> points() {
  rd::manual_seed(seed);
  Tensor x = (rd::rand({1000, 2}) * 2.0 - 1.0).narrow(0, 0, 12);
  return std::make_shared<data::TensorDataset>(x, lt(sum(square(x), {1}), 0.6).to(rd::i64));
}

/// Random flips: a point may change the sign of each coordinate. The circle stays the same.
data::Batch flip(data::Batch batch, const data::BatchContext& context) {
  const rd::Philox random{seed, data::augmentation_streams + context.draw.epoch};
  for (std::size_t row = 0; row < context.indices.size(); ++row) {
    const auto words = random.block(static_cast<std::uint64_t>(context.indices[row]));
    for (std::int64_t axis = 0; axis < 2; ++axis)
      if (words[static_cast<std::size_t>(axis)] % 2 == 1)
        batch.input[static_cast<std::int64_t>(row)][axis].mul_(-1.0);
  }
  return batch;
}

/// For each batch of a loop: the indices of its points, and the signs that the flips gave them.
void show(data::DataLoader& loader) {
  const Tensor original = points()->inputs();
  for (auto it = loader.begin(); it != loader.end(); ++it) {
    std::cout << "  [";
    for (std::size_t row = 0; row < it.indices().size(); ++row) {
      std::cout << " " << it.indices()[row];
      for (std::int64_t axis = 0; axis < 2; ++axis)
        std::cout << (it->input[static_cast<std::int64_t>(row)][axis].item() ==
                              original[it.indices()[row]][axis].item()
                          ? '+'
                          : '-');
    }
    std::cout << " ]";
  }
  std::cout << "\n";
}

data::DataLoader loader_with(int workers) {
  return data::DataLoader(
      points(), {.batch_size = 4, .shuffle = true, .seed = seed, .workers = workers}, flip);
}

/// Twelve batches; one takes long. The loop trains as long as an ordinary batch takes two workers.
void trace(const char* file) {
  data::DataLoader loader(points(), {.batch_size = 1, .shuffle = false, .workers = 2},
                          [](data::Batch batch, const data::BatchContext& context) {
                            std::this_thread::sleep_for(Milliseconds(context.batch == 4 ? 50 : 16));
                            return batch;
                          });
  rd::train::Profiler profiler;
  {
    const auto recording = profiler.start();
    for ([[maybe_unused]] const auto& batch : loader) {
      const rd::RecordFunction range("train");
      std::this_thread::sleep_for(Milliseconds(9));
    }
  }
  profiler.write_chrome_trace(file);
}

}  // namespace

int main(int argc, char** argv) {
  for (const int workers : {0, 1, 3}) {
    data::DataLoader loader = loader_with(workers);
    std::cout << workers << " workers\n";
    show(loader);
    show(loader);
  }
  data::DataLoader loader = loader_with(3);
  loader.set_position({.epoch = 1, .batch = 1});
  std::cout << "3 workers, from epoch 1, batch 1\n";
  show(loader);
  if (argc > 1) trace(argv[1]);
}
