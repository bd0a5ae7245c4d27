// Reads CIFAR's records into one tensor of bytes. Checks file sizes before reading and labels while
// reading.

#include "data/cifar.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "data/files.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t image_bytes = 3 * 32 * 32;

/// What differs between the two data sets and their splits.
struct Form {
  const char* folder;
  std::vector<std::string> files;
  std::int64_t records;      // in each file
  std::int64_t label_bytes;  // before the image
  std::int64_t label_at;     // which of these bytes is used
  const char* names_file;
  std::vector<std::string> names;  // used if that file is missing
};

/// Throws unless the file's size is that of `form.records` whole records.
void check_size(const fs::path& file, const Form& form) {
  const std::int64_t record = form.label_bytes + image_bytes, bytes = size_of_file(file);
  require<IoError>(bytes >= form.records * record, file.string(), ": ", bytes, " bytes instead of ",
                   form.records * record, ": the file ends in record ", bytes / record, " of ",
                   form.records, " (it was cut short)");
  require<IoError>(bytes == form.records * record, file.string(), ": ", bytes, " bytes instead of ",
                   form.records * record, ": more than ", form.records, " records of ", record,
                   " bytes");
}

/// Reads the first `count` records of `file` to `images` and `labels`.
void read_records(const fs::path& file, const Form& form, std::int64_t count, std::uint8_t* images,
                  std::int64_t* labels) {
  const std::int64_t record = form.label_bytes + image_bytes;
  const auto classes = static_cast<std::int64_t>(form.names.size());
  std::ifstream in(file, std::ios::binary);
  require<IoError>(in.good(), file.string(), ": cannot be opened");
  std::vector<char> buffer(static_cast<std::size_t>(std::min<std::int64_t>(count, 256) * record));
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t some = std::min<std::int64_t>(count - done, 256);
    in.read(buffer.data(), some * record);
    require<IoError>(in.gcount() == some * record, file.string(), ": ends in record ",
                     done + in.gcount() / record, ", at byte ", done * record + in.gcount());
    for (std::int64_t i = 0; i < some; ++i, ++done) {
      const char* bytes = buffer.data() + i * record;
      const std::int64_t label = static_cast<std::uint8_t>(bytes[form.label_at]);
      require<IoError>(label < classes, file.string(), ": record ", done, " (byte ",
                       done * record + form.label_at, ") has label ", label, ", but there are ",
                       classes, " classes");
      labels[done] = label;
      std::memcpy(images + done * image_bytes, bytes + form.label_bytes, image_bytes);
    }
  }
}

std::shared_ptr<ImageDataset> load(const fs::path& dir, const Form& form,
                                   std::optional<std::int64_t> limit) {
  const fs::path folder = fs::is_directory(dir / form.folder) ? dir / form.folder : dir;
  require_folder(folder);
  std::int64_t total = form.records * static_cast<std::int64_t>(form.files.size());
  if (limit) {
    require<IoError>(*limit > 0, folder.string(), ": limit of ", *limit,
                     " images: it should be at least 1");
    total = std::min(total, *limit);
  }
  for (const auto& file : form.files) check_size(folder / file, form);
  Tensor images = Tensor::empty({total, 3, 32, 32}, {.dtype = u8});
  Tensor labels = Tensor::empty({total}, {.dtype = i64});
  std::int64_t done = 0;
  for (const auto& file : form.files) {
    const std::int64_t count = std::min(form.records, total - done);
    read_records(folder / file, form, count, images.data_ptr<std::uint8_t>() + done * image_bytes,
                 labels.data_ptr<std::int64_t>() + done);
    done += count;
  }
  return std::make_shared<ImageDataset>(std::move(images), std::move(labels),
                                        read_class_names(folder / form.names_file, form.names));
}

/// "0", "1", …
std::vector<std::string> numbers(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

std::shared_ptr<ImageDataset> load_cifar10(const std::string& dir, Split split,
                                           CifarOptions options) {
  require(!options.coarse_labels, "load_cifar10: only CIFAR-100 has coarse labels");
  Form form{.folder = "cifar-10-batches-bin",
            .files = {"test_batch.bin"},
            .records = options.records_per_file ? options.records_per_file : 10000,
            .label_bytes = 1,
            .label_at = 0,
            .names_file = "batches.meta.txt",
            .names = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse",
                      "ship", "truck"}};
  if (split == Split::train) {
    form.files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                  "data_batch_5.bin"};
  }
  return load(dir, form, options.limit);
}

std::shared_ptr<ImageDataset> load_cifar100(const std::string& dir, Split split,
                                            CifarOptions options) {
  const bool train = split == Split::train, coarse = options.coarse_labels;
  const std::int64_t official = train ? 50000 : 10000;
  Form form{.folder = "cifar-100-binary",
            .files = {train ? "train.bin" : "test.bin"},
            .records = options.records_per_file ? options.records_per_file : official,
            .label_bytes = 2,
            .label_at = coarse ? 0 : 1,
            .names_file = coarse ? "coarse_label_names.txt" : "fine_label_names.txt",
            .names = numbers(coarse ? 20 : 100)};
  return load(dir, form, options.limit);
}

}  // namespace rondo::data
