// Reads IDX files through zlib, which reads uncompressed files unchanged.

#include "data/mnist.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "data/files.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

/// A file read through zlib.
class GzFile {
 public:
  explicit GzFile(const fs::path& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    require<IoError>(file_ != nullptr, path.string(), ": cannot be opened");
    gzbuffer(file_, 1 << 17);
  }
  ~GzFile() { gzclose(file_); }
  GzFile(const GzFile&) = delete;
  GzFile& operator=(const GzFile&) = delete;

  /// Reads up to `bytes` bytes; fewer only at the end. Throws on damaged gzip, also if its end is
  /// missing.
  std::size_t read(void* to, std::size_t bytes) {
    const int got = gzread(file_, to, static_cast<unsigned>(bytes));
    int status = Z_OK;
    const char* message = gzerror(file_, &status);
    require<IoError>(got >= 0 && (status == Z_OK || status == Z_STREAM_END), path_.string(),
                     ": damaged or cut short (", message, ")");
    return static_cast<std::size_t>(got);
  }

 private:
  fs::path path_;
  gzFile file_;
};

/// The dimensions in an IDX header.
Dims read_header(GzFile& in, const fs::path& file, std::int64_t limit) {
  std::array<std::uint8_t, 4> word{};
  require<IoError>(in.read(word.data(), 4) == 4, file.string(), ": ends inside the magic number");
  require<IoError>(word[0] == 0 && word[1] == 0 && word[2] == 8 && word[3] >= 1 && word[3] <= 4,
                   file.string(), ": magic number ", int{word[0]}, " ", int{word[1]}, " ",
                   int{word[2]}, " ", int{word[3]},
                   " is not that of an IDX file of bytes (0 0 8, 1 to 4 dimensions)");
  Dims dims;
  for (int rank = word[3]; rank > 0; --rank) {
    require<IoError>(in.read(word.data(), 4) == 4, file.string(), ": ends inside the dimensions");
    dims.push_back(std::int64_t{word[0]} << 24 | word[1] << 16 | word[2] << 8 | word[3]);
  }
  // A damaged header must not request all memory, and the product must not overflow, even if
  // another dimension is zero.
  double elements = 1;
  for (const std::int64_t size : dims)
    elements *= static_cast<double>(std::max<std::int64_t>(size, 1));
  require<IoError>(elements <= static_cast<double>(limit), file.string(), ": dimensions ", dims,
                   " ask for more than the ", limit, " bytes that are allowed here");
  return dims;
}

/// `name` in `folder`, plain or with .gz; empty if neither exists.
fs::path plain_or_gz(const fs::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    if (fs::is_regular_file(folder / (name + ending))) return folder / (name + ending);
  }
  return {};
}

fs::path find_file(const fs::path& dir, const std::vector<std::string>& folders,
                   const std::string& name) {
  require_folder(dir);
  for (const auto& folder : folders) {
    const fs::path file = plain_or_gz(dir / folder, name);
    if (!file.empty()) return file;
  }
  const fs::path file = plain_or_gz(dir, name);
  require<IoError>(!file.empty(), (dir / name).string(), ": file not found (also tried with .gz)");
  return file;
}

/// What differs between the data sets.
struct IdxForm {
  std::vector<std::string> folders;
  std::vector<std::string> names;  // of the classes
  std::string train = "train", test = "t10k";
  std::int64_t most = 60000;  // images
};

std::shared_ptr<ImageDataset> load(const fs::path& dir, IdxForm form, Split split,
                                   std::optional<std::int64_t> limit) {
  const std::string& prefix = split == Split::train ? form.train : form.test;
  const fs::path image_file = find_file(dir, form.folders, prefix + "-images-idx3-ubyte");
  const fs::path label_file = find_file(dir, form.folders, prefix + "-labels-idx1-ubyte");
  const auto classes = static_cast<std::int64_t>(form.names.size());
  const Tensor images = read_idx(image_file, form.most * 784),
               bytes = read_idx(label_file, form.most);
  require<IoError>(images.dim() == 3 && images.size(1) == 28 && images.size(2) == 28,
                   image_file.string(), ": dimensions ", images.shape(), " instead of N x 28 x 28");
  require<IoError>(bytes.dim() == 1, label_file.string(), ": dimensions ", bytes.shape(),
                   " instead of N");
  require<IoError>(images.size(0) == bytes.size(0), label_file.string(), ": ", bytes.size(0),
                   " labels for ", images.size(0), " images");
  std::int64_t count = images.size(0);
  if (limit) {
    require<IoError>(*limit > 0, dir.string(), ": limit of ", *limit,
                     " images: it should be at least 1");
    count = std::min(count, *limit);
  }
  Tensor labels = Tensor::empty({count}, {.dtype = i64});
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = bytes.data_ptr<std::uint8_t>()[i];
    require<IoError>(label < classes, label_file.string(), ": record ", i, " (byte ", 8 + i,
                     ") has label ", label, ", but there are ", classes, " classes");
    labels.data_ptr<std::int64_t>()[i] = label;
  }
  Tensor planes = images.as_view({count, 1, 28, 28}, {784, 784, 28, 1}, images.storage_offset());
  return std::make_shared<ImageDataset>(std::move(planes), std::move(labels),
                                        std::move(form.names));
}

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> names;
  for (const char c : text) names.emplace_back(1, c);
  return names;
}

}  // namespace

Tensor read_idx(const std::string& file, std::int64_t limit) {
  size_of_file(file);
  GzFile in(file);
  const Dims dims = read_header(in, file, limit);
  const std::int64_t wanted = numel_of(dims);
  // Read before allocating the tensor: memory use then follows the actual data, not the header.
  std::vector<std::uint8_t> bytes;
  constexpr std::size_t step = 1 << 20;
  for (std::size_t got = step; got == step;) {
    const std::size_t done = bytes.size();
    bytes.resize(done + step);
    got = in.read(bytes.data() + done, step);
    bytes.resize(done + got);
    if (static_cast<std::int64_t>(bytes.size()) > wanted) break;
  }
  const auto found = static_cast<std::int64_t>(bytes.size());
  require<IoError>(found >= wanted, file, ": ", found, " bytes of data, but dimensions ", dims,
                   " ask for ", wanted, " (it was cut short)");
  require<IoError>(found == wanted, file, ": more bytes than the ", wanted, " that dimensions ",
                   dims, " ask for");
  Tensor out = Tensor::empty(dims, {.dtype = u8});
  if (wanted > 0) std::memcpy(out.data_ptr(), bytes.data(), bytes.size());
  return out;
}

const std::vector<std::string>& mnist_folders() {
  static const std::vector<std::string> folders{"MNIST/raw", "mnist"};
  return folders;
}

const std::vector<std::string>& fashion_mnist_folders() {
  static const std::vector<std::string> folders{"FashionMNIST/raw", "fashion-mnist"};
  return folders;
}

std::shared_ptr<ImageDataset> load_mnist(const std::string& dir, Split split,
                                         MnistOptions options) {
  return load(dir, {.folders = mnist_folders(), .names = characters("0123456789")}, split,
              options.limit);
}

std::shared_ptr<ImageDataset> load_fashion_mnist(const std::string& dir, Split split,
                                                 MnistOptions options) {
  return load(dir,
              {.folders = fashion_mnist_folders(),
               .names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                         "Sneaker", "Bag", "Ankle boot"}},
              split, options.limit);
}

std::shared_ptr<ImageDataset> load_kmnist(const std::string& dir, Split split,
                                          MnistOptions options) {
  return load(dir,
              {.folders = {"KMNIST/raw", "kmnist"},
               .names = {"o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"}},
              split, options.limit);
}

std::shared_ptr<ImageDataset> load_emnist(const std::string& dir, const std::string& part,
                                          Split split, MnistOptions options) {
  const std::string digits = "0123456789", upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                    lower = "abcdefghijklmnopqrstuvwxyz";
  std::vector<std::string> names;
  if (part == "byclass") {
    names = characters(digits + upper + lower);
  } else if (part == "bymerge" || part == "balanced") {
    names = characters(digits + upper + "abdefghnqrt");  // the others look like capitals
  } else if (part == "letters") {
    names = characters(lower);
    names.insert(names.begin(), "N/A");
  } else {
    require(part == "digits" || part == "mnist", "load_emnist: part '", part,
            "' should be byclass, bymerge, balanced, letters, digits or mnist");
    names = characters(digits);
  }
  return load(dir,
              {.folders = {"EMNIST/raw", "emnist"},
               .names = std::move(names),
               .train = "emnist-" + part + "-train",
               .test = "emnist-" + part + "-test",
               .most = 697932},
              split, options.limit);
}

}  // namespace rondo::data
