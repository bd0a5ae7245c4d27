// The batches of a loader with 0, 1 and 3 workers, and of one that resumes.
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

namespace {

using Milliseconds = std::chrono::milliseconds;

/// Twelve grey images of 8 x 8 bytes.
std::shared_ptr<data::ImageDataset> images() {
  return std::make_shared<data::ImageDataset>(
      (rd::arange(12 * 64) * 7).to(rd::u8).reshape({12, 1, 8, 8}),
      rd::zeros({12}, {.dtype = rd::i64}), std::vector<std::string>{"class"});
}

/// For each batch of a loop: the indices, and a checksum of the augmented bytes.
void show(data::DataLoader& loader) {
  for (auto it = loader.begin(); it != loader.end(); ++it) {
    std::cout << "  [";
    for (const std::int64_t i : it.indices()) std::cout << " " << i;
    std::int64_t sum = 0, weight = 1;
    for (const std::int64_t byte : it->input.to(rd::i64).to_vector<std::int64_t>())
      sum = (sum + byte * weight++) % 1'000'003;
    std::cout << " ] " << sum;
  }
  std::cout << "\n";
}

data::DataLoader loader_with(int workers) {
  return data::DataLoader(
      images(), {.batch_size = 4, .shuffle = true, .seed = 1, .workers = workers},
      data::ImageTransform({data::RandomCrop{8, 8, 2}, data::RandomHorizontalFlip{}}, {.seed = 1}));
}

/// Twelve batches; one takes long. The loop trains as long as an ordinary batch takes two workers.
void trace(const char* file) {
  data::DataLoader loader(images(), {.batch_size = 1, .shuffle = false, .workers = 2},
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
