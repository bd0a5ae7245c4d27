// Measures the data loader: images per second on one core with CIFAR's augmentation, and the share
// of its time that a training thread waits for the loader.
//
//   build/bin/data_loading --workers 1 --seconds 2 --json -
//
// Images are synthetic bytes in CIFAR's shape, more than any cache holds, so no data are needed.
// Rows: first the transform alone (one thread, CPU time, for lists of steps), then whole loops over
// a DataLoader with 0 … N workers (wall time). "wait" is the share of the loop's time that the
// consumer waited for the loader, while it simulated training for --train-ms a batch.

#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <thread>

#include "data/loader.h"
#include "data/transforms.h"
#include "extras/command_line.h"
#include "report.h"
#include "tensor/creation.h"
#include "tensor/random.h"

namespace {

using namespace rondo;
using namespace rondo::data;
using Clock = std::chrono::steady_clock;

/// CPU time of the calling thread. Wall time would include the other load of the machine.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Row {
  std::string name;
  int workers;
  double img_per_s;  // 0 if the consumer simulates training
  double wait;       // share of time; negative if not measured
};

std::shared_ptr<ImageDataset> make_images(std::int64_t count) {
  Tensor images = Tensor::empty({count, 3, 32, 32}, {.dtype = u8});
  auto* bytes = images.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < images.numel(); i += 16) {
    const auto words = Philox{1, 0}.block(static_cast<std::uint64_t>(i));
    std::memcpy(bytes + i, words.data(), 16);
  }
  return std::make_shared<ImageDataset>(images, zeros({count}, {.dtype = i64}),
                                        std::vector<std::string>(10, "class"));
}

/// Lists of steps; each has one step more than the one before.
std::vector<std::pair<std::string, std::vector<ImageStep>>> lists() {
  const Normalize normalize{{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
  return {{"normalize", {ToFloat{}, normalize}},
          {"+ crop", {RandomCrop{32, 32, 4}, ToFloat{}, normalize}},
          {"+ flip", {RandomCrop{32, 32, 4}, RandomHorizontalFlip{}, ToFloat{}, normalize}},
          {"+ cutout",
           {RandomCrop{32, 32, 4}, RandomHorizontalFlip{}, ToFloat{}, normalize, Cutout{8}}}};
}

/// Images per second of CPU time through the transform alone, in batches of consecutive rows.
double transform_rate(const ImageDataset& set, const ImageTransform& transform, std::int64_t batch,
                      double seconds) {
  const Indices order = SequentialSampler(set.size()).indices();
  std::int64_t images = 0, at = 0;
  std::uint64_t epoch = 0;
  const auto start = Clock::now();
  const double before = cpu_seconds();
  do {
    if (at + batch > set.size()) at = 0, ++epoch;
    const Tensor rows = set.images().as_view({batch, 3, 32, 32}, set.images().strides(), at * 3072);
    const Tensor out = transform.apply(
        rows,
        std::span(order).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(batch)),
        {epoch});
    at += batch;
    images += batch;
  } while (seconds_since(start) < seconds);
  return static_cast<double>(images) / (cpu_seconds() - before);
}

/// Iterates over a loader. The consumer sleeps `train_ms` per batch.
Row loop(const std::shared_ptr<ImageDataset>& set, const Transform& transform, std::int64_t batch,
         int workers, double seconds, double train_ms) {
  DataLoader loader(set, std::make_shared<RandomSampler>(set->size()),
                    {.batch_size = batch, .drop_last = true, .workers = workers}, transform);
  std::int64_t images = 0;
  double trained = 0;
  const auto start = Clock::now();
  for (std::uint64_t epoch = 0; seconds_since(start) < seconds; ++epoch) {
    loader.set_epoch(epoch);
    for (const Batch& b : loader) {
      images += b.size();
      const auto at = Clock::now();
      if (train_ms > 0)
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(train_ms));
      trained += seconds_since(at);
      if (seconds_since(start) >= seconds) break;
    }
  }
  const double total = seconds_since(start);
  const double rate = train_ms > 0 ? 0 : static_cast<double>(images) / total;
  return {"loader", workers, rate, train_ms > 0 ? (total - trained) / total : -1};
}

void print(const std::vector<Row>& rows) {
  std::printf("%-28s %8s %14s %12s %8s\n", "", "workers", "img/s", "us/image", "wait");
  for (const auto& row : rows) {
    std::printf("%-28s %8d ", row.name.c_str(), row.workers);
    if (row.img_per_s > 0)
      std::printf("%14.0f %12.3f ", row.img_per_s, 1e6 / row.img_per_s);
    else
      std::printf("%14s %12s ", "-", "-");
    if (row.wait >= 0) std::printf("%7.2f%%", 100 * row.wait);
    std::printf("\n");
  }
}

nlohmann::json as_json(const std::vector<Row>& rows, std::int64_t batch) {
  nlohmann::json json{{"batch", batch}, {"rows", nlohmann::json::array()}};
  for (const auto& row : rows) {
    nlohmann::json entry{{"name", row.name}, {"workers", row.workers}};
    if (row.img_per_s > 0) entry["img_per_s"] = row.img_per_s;
    if (row.wait >= 0) entry["wait"] = row.wait;
    json["rows"].push_back(entry);
  }
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t batch = 128, images = 20000;
  int workers = 1;
  double seconds = 1, train_ms = 20;
  bool loops_only = false;
  std::string json;
  flags::CommandLine app("Measures images per second of the augmentation and the loader");
  app.add("--batch", batch, "images a batch", flags::count());
  app.add("--images", images, "images in the data set", flags::count());
  app.add("--workers", workers, "largest number of loader threads", flags::threads());
  app.add("--seconds", seconds, "time for each row", flags::positive());
  app.add("--train-ms", train_ms, "time of a simulated training step", flags::positive());
  app.add("--loops-only", loops_only, "skip the rows of the transform alone");
  app.add("--json", json, "write the rows to this file, or - for standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  return bench::finish("data_loading", json, [&] {
    require(images >= batch, "--images ", images, " is less than --batch ", batch);

    const auto set = make_images(images);
    std::vector<Row> rows;
    for (const auto format : {MemoryFormat::channels_last, MemoryFormat::contiguous}) {
      if (loops_only) break;
      const std::string layout = format == MemoryFormat::channels_last ? " (NHWC)" : " (NCHW)";
      for (const auto& [name, steps] : lists()) {
        rows.push_back(
            {name + layout, 0,
             transform_rate(*set, ImageTransform(steps, {.format = format}), batch, seconds), -1});
      }
    }
    const ImageTransform augment(lists()[2].second);
    for (int n = 0; n <= workers; ++n) {
      rows.push_back(loop(set, augment, batch, n, seconds, 0));
      rows.push_back(loop(set, augment, batch, n, seconds, train_ms));
    }
    if (json != "-") print(rows);
    bench::write_json(as_json(rows, batch), json);
  });
}
