// Measures ImageFolder: images per second by number of workers, and the time until the first batch
// of an epoch.
//
//   build/bin/image_folder --root /tmp/pictures --workers 2 --seconds 5 --json -
//   python3 bench/peers/image_folder.py --root /tmp/pictures --workers 2      # torchvision
//
// If the root does not exist, the program fills it with synthetic JPEG files of 500 x 375 pixels
// and about 90 KB, similar to ImageNet's; otherwise it reads the pictures that are there. The
// pipeline is the usual one for ImageNet: RandomResizedCrop to 224 x 224, flip, normalisation. "+
// jitter" adds ColorJitter, "cached" keeps the decoded pictures in memory. Rows with 0 workers use
// one thread.

#include "data/image_folder.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "data/image.h"
#include "data/loader.h"
#include "data/subsets.h"
#include "extras/command_line.h"
#include "report.h"
#include "tensor/random.h"

#ifdef RONDO_BENCH_IMAGES
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on
#endif

namespace {

using namespace rondo;
using namespace rondo::data;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Row {
  std::string name;
  int workers;
  double img_per_s;
  double first_batch_ms;  // negative if there are no batches
};

#ifdef RONDO_BENCH_IMAGES

/// Writes waves and noise, so that the JPEG file is as large as that of a photograph.
void write_jpeg(const std::filesystem::path& path, std::uint64_t seed) {
  constexpr int height = 375, width = 500;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  require<IoError>(file != nullptr, path.string(), ": cannot be written");
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, file);
  jpeg.image_width = width;
  jpeg.image_height = height;
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<std::uint8_t> row(3 * width);
  const Philox random{seed, 0};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const std::uint32_t grain = random.word(static_cast<std::uint64_t>(y * width + x)) % 48;
      for (int c = 0; c < 3; ++c) {
        const double wave = std::sin(x * (0.01 + 0.02 * c) + static_cast<double>(seed)) *
                            std::cos(y * (0.05 - 0.01 * c));
        row[static_cast<std::size_t>(3 * x + c)] =
            static_cast<std::uint8_t>(104 + 100 * wave + grain);
      }
    }
    JSAMPROW pixels = row.data();
    jpeg_write_scanlines(&jpeg, &pixels, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::fclose(file);
}

void make_pictures(const std::filesystem::path& root, int count) {
  for (int i = 0; i < count; ++i) {
    const auto folder = root / ("class" + std::to_string(i % 4));
    std::filesystem::create_directories(folder);
    write_jpeg(folder / (std::to_string(i) + ".jpg"), static_cast<std::uint64_t>(i));
  }
}

#else

void make_pictures(const std::filesystem::path& root, int) { ImageFolder folder(root); }  // throws

#endif

std::vector<PictureStep> steps(bool jitter) {
  std::vector<PictureStep> steps{RandomResizedCrop{224, 224}, RandomHorizontalFlip{}};
  if (jitter) steps.emplace_back(ColorJitter{0.4, 0.4, 0.4, 0.1});
  steps.emplace_back(ToFloat{});
  steps.emplace_back(Normalize{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}});
  return steps;
}

/// Measures decoding alone, on this thread.
Row decode_alone(const ImageFolder& folder, double seconds) {
  std::int64_t images = 0;
  const auto start = Clock::now();
  do {
    folder.decode(images++ % folder.size());
  } while (seconds_since(start) < seconds);
  return {"decode", 0, static_cast<double>(images) / seconds_since(start), -1};
}

/// Measures whole epochs, and the first batch separately, since it waits until the workers have
/// started.
Row loop(const std::string& name, const std::shared_ptr<const Dataset>& set, std::int64_t batch,
         int workers, double seconds) {
  DataLoader loader(set, std::make_shared<RandomSampler>(set->size()),
                    {.batch_size = batch, .drop_last = true, .workers = workers});
  std::int64_t images = 0;
  std::vector<double> first;
  const auto start = Clock::now();
  for (std::uint64_t epoch = 0; epoch == 0 || seconds_since(start) < seconds; ++epoch) {
    loader.set_epoch(epoch);
    const auto begin = Clock::now();
    auto it = loader.begin();
    first.push_back(1e3 * seconds_since(begin));
    for (; it != loader.end(); ++it) images += it->size();
  }
  return {name, workers, static_cast<double>(images) / seconds_since(start), bench::median(first)};
}

void print(const std::vector<Row>& rows) {
  std::printf("%-12s %8s %10s %16s\n", "", "workers", "img/s", "first batch, ms");
  for (const auto& row : rows) {
    std::printf("%-12s %8d %10.1f ", row.name.c_str(), row.workers, row.img_per_s);
    if (row.first_batch_ms >= 0) std::printf("%16.1f", row.first_batch_ms);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string root = (std::filesystem::temp_directory_path() / "rondo-pictures").string(), json;
  std::int64_t batch = 32;
  int workers = 2, images = 256;
  double seconds = 5;
  flags::CommandLine app("Measures images per second from a folder of pictures");
  app.add("--root", root,
          "folder with one folder per class; if missing, synthetic images are made");
  app.add("--images", images, "number of synthetic images", flags::count());
  app.add("--batch", batch, "images per batch", flags::count());
  app.add("--workers", workers, "largest number of loader threads", flags::threads());
  app.add("--seconds", seconds, "time for each row", flags::positive());
  app.add("--json", json, "write the rows to this file, or - for standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  return bench::finish("image_folder", json, [&] {
    if (!std::filesystem::exists(root)) make_pictures(root, images);
    const auto plain = std::make_shared<ImageFolder>(root, ImagePipeline(steps(false)));
    const auto jitter = std::make_shared<ImageFolder>(root, ImagePipeline(steps(true)));
    const auto cached = std::make_shared<CachedDataset>(plain, std::int64_t{4} << 30);
    require(plain->size() >= batch, root, " holds ", plain->size(), " pictures, less than --batch ",
            batch);
    std::vector<Row> rows{decode_alone(*plain, seconds)};
    for (int n = 0; n <= workers; ++n) {
      rows.push_back(loop("loader", plain, batch, n, seconds));
      rows.push_back(loop("+ jitter", jitter, batch, n, seconds));
      rows.push_back(loop("cached", cached, batch, n, seconds));
    }
    if (json != "-") print(rows);
    nlohmann::json report{{"batch", batch}, {"pictures", plain->size()}};
    for (const auto& row : rows) {
      nlohmann::json entry{
          {"name", row.name}, {"workers", row.workers}, {"img_per_s", row.img_per_s}};
      if (row.first_batch_ms >= 0) entry["first_batch_ms"] = row.first_batch_ms;
      report["rows"].push_back(entry);
    }
    bench::write_json(report, json);
  });
}
