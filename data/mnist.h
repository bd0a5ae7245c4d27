#pragma once
// MNIST (LeCun et al. 1998) and Fashion-MNIST (Xiao et al. 2017), which share one form: IDX files,
// plain or gzip.
//
// IDX: two zero bytes, a byte with the type (8 for unsigned bytes), a byte with the number of
// dimensions, each dimension as a big-endian 32-bit number, then the elements row by row. Images
// are (N, 28, 28) and labels (N).
//
// Read next: data/download.h, which finds or fetches the files.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "data/dataset.h"

namespace rondo::data {

/// One IDX file of unsigned bytes as a u8 tensor, unpacked on the way when it is gzip. Throws
/// IoError naming the file: missing, a magic number that is not that of an IDX file of bytes, fewer
/// or more bytes than its dimensions promise, dimensions that ask for more than `limit` bytes,
/// damaged gzip. Takes at most 4 bytes of memory for each of the file's (of those that it unpacks
/// to, at most 1,032 times as many), and 4 MiB.
Tensor read_idx(const std::filesystem::path& file, std::int64_t limit = std::int64_t{8} << 30);

struct MnistOptions {
  /// Only the first so many images of the split.
  std::optional<std::int64_t> limit = {};
};

/// Reads {train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, each plain or with .gz, from `dir`
/// or from MNIST/raw or mnist in it: images u8 (N, 1, 28, 28), labels i64 (N). Throws IoError as
/// read_idx does, for more than the 60,000 images that the sets have, and when the two files
/// disagree, images are not 28 × 28, or a label is above 9.
std::shared_ptr<ImageDataset> load_mnist(const std::filesystem::path& dir, Split split,
                                         MnistOptions options = {});

/// The same from `dir` or from FashionMNIST/raw or fashion-mnist in it, with the names of clothes.
/// Debian's package dataset-fashion-mnist puts the files into /usr/share/datasets/fashion-mnist.
std::shared_ptr<ImageDataset> load_fashion_mnist(const std::filesystem::path& dir, Split split,
                                                 MnistOptions options = {});

/// Where the four files may lie below a folder of data sets, best first: "MNIST/raw" ….
const std::vector<std::string>& mnist_folders();
const std::vector<std::string>& fashion_mnist_folders();

}  // namespace rondo::data
