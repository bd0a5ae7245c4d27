// When each thread of a loader made or waited for a batch: the trace of chapter 8's figure. One of
// twelve batches takes long. The loop trains as long as an ordinary batch takes two workers.
//
//   build/bin/book/08_workers FILE
#include <rondo/rondo.h>

#include <thread>

namespace rd = rondo;
namespace data = rondo::data;
using Milliseconds = std::chrono::milliseconds;

int main(int argc, char** argv) {
  data::DataLoader loader(std::make_shared<data::TensorDataset>(
                              rd::zeros({12, 2}), rd::zeros({12}, {.dtype = rd::i64})),
                          {.batch_size = 1, .shuffle = false, .workers = 2},
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
  if (argc > 1) profiler.write_chrome_trace(argv[1]);
}
