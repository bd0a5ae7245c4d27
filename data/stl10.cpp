#include "data/stl10.h"

#include <filesystem>
#include <fstream>

#include "data/files.h"

namespace rondo::data {
namespace {

constexpr std::int64_t stl10_side = 96, stl10_plane = stl10_side * stl10_side;

/// Opens a file that must have `records` records of `record` bytes.
std::ifstream open_records(const std::filesystem::path& file, std::int64_t records,
                           std::int64_t record) {
  const std::int64_t bytes = size_of_file(file);
  require<IoError>(bytes == records * record, file.string(), ": ", bytes, " bytes instead of ",
                   records * record, ", which are ", records, " records of ", record, " bytes",
                   bytes < records * record ? " (it was cut short)" : "");
  std::ifstream in(file, std::ios::binary);
  require<IoError>(in.good(), file.string(), ": cannot be opened");
  return in;
}

void read_bytes(std::ifstream& in, const std::filesystem::path& file, std::vector<char>& bytes) {
  in.read(bytes.data(), std::ssize(bytes));
  require<IoError>(in.gcount() == std::ssize(bytes), file.string(), ": cannot be read");
}

}  // namespace

std::shared_ptr<ImageDataset> load_stl10(const std::string& dir, Split split,
                                         Stl10Options options) {
  namespace fs = std::filesystem;
  const fs::path below = fs::path(dir) / "stl10_binary",
                 folder = fs::is_directory(below) ? below : fs::path(dir);
  require_folder(folder);
  require<IoError>(!options.limit || *options.limit > 0, folder.string(), ": limit of ",
                   options.limit.value_or(0), " images: it should be at least 1");
  const std::int64_t official = split == Split::train ? 5000 : 8000;
  const std::int64_t records = options.records > 0 ? options.records : official;
  const std::int64_t count = std::min(records, options.limit.value_or(records));
  const fs::path image_file = folder / concat(name_of(split), "_X.bin"),
                 label_file = folder / concat(name_of(split), "_y.bin");
  std::ifstream images_in = open_records(image_file, records, 3 * stl10_plane),
                labels_in = open_records(label_file, records, 1);
  std::vector<char> label_bytes(static_cast<std::size_t>(count)), planes(3 * stl10_plane);
  read_bytes(labels_in, label_file, label_bytes);
  const Tensor images = Tensor::empty({count, 3, stl10_side, stl10_side}, {.dtype = u8}),
               labels = Tensor::empty({count}, {.dtype = i64});
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = static_cast<std::uint8_t>(label_bytes[static_cast<std::size_t>(i)]);
    require<IoError>(label >= 1 && label <= 10, label_file.string(), ": image ", i, " has label ",
                     label, ", but labels are 1 to 10");
    labels.data_ptr<std::int64_t>()[i] = label - 1;
    read_bytes(images_in, image_file, planes);
    auto* image = images.data_ptr<std::uint8_t>() + i * 3 * stl10_plane;
    for (std::int64_t at = 0; at < 3 * stl10_plane; ++at) {
      const std::int64_t plane = at / stl10_plane, row = at % stl10_side,
                         column = at % stl10_plane / stl10_side;
      image[plane * stl10_plane + row * stl10_side + column] =
          static_cast<std::uint8_t>(planes[static_cast<std::size_t>(at)]);
    }
  }
  return std::make_shared<ImageDataset>(
      images, labels,
      read_class_names(folder / "class_names.txt", {"airplane", "bird", "car", "cat", "deer", "dog",
                                                    "horse", "monkey", "ship", "truck"}));
}

}  // namespace rondo::data
