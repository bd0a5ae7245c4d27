#pragma once
// MNIST (LeCun et al. 1998), Fashion-MNIST (Xiao et al. 2017), KMNIST (Clanuwat et al. 2018) and
// EMNIST (Cohen et al. 2017). They use IDX files, plain or gzip.
//
// IDX: two zero bytes, a byte with the type (8 for unsigned bytes), a byte with the number of
// dimensions, each dimension as a big-endian 32-bit number, then the elements in row-major order.
// Images are (N, 28, 28) and labels (N).
//
// Read next: data/download.h, which finds or fetches the files.

#include <cstdint>
#include <optional>
#include <string>

#include "data/dataset.h"

namespace rondo::data {

/// Reads an IDX file of unsigned bytes into a u8 tensor; unpacks gzip. Throws IoError naming the
/// file if it is missing, its magic number is not that of an IDX file of bytes, it has fewer or
/// more bytes than its dimensions require, its dimensions require more than `limit` bytes, or the
/// gzip is damaged. Uses at most 4 MiB plus 4 bytes of memory for each byte of the file (of a gzip
/// file: for each unpacked byte, at most 1,032 per byte of the file).
Tensor read_idx(const std::string& file, std::int64_t limit = std::int64_t{8} << 30);

struct MnistOptions {
  /// Use only the first `limit` images of the split.
  std::optional<std::int64_t> limit = {};
};

/// Reads {train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, each plain or with .gz, from `dir`
/// or from MNIST/raw or mnist in it: images u8 (N, 1, 28, 28), labels i64 (N). Throws IoError as
/// read_idx does, and if there are more than the sets' 60,000 images, the two files disagree,
/// images are not 28 × 28, or a label is above 9.
std::shared_ptr<ImageDataset> load_mnist(const std::string& dir, Split split,
                                         MnistOptions options = {});

/// The same from `dir` or from FashionMNIST/raw or fashion-mnist in it, with the names of clothes.
/// Debian's package dataset-fashion-mnist installs the files in /usr/share/datasets/fashion-mnist.
std::shared_ptr<ImageDataset> load_fashion_mnist(const std::string& dir, Split split,
                                                 MnistOptions options = {});

/// The same from `dir` or from KMNIST/raw or kmnist in it: ten characters of Hiragana. rondo does
/// not download it; the files are at https://codh.rois.ac.jp/kmnist.
std::shared_ptr<ImageDataset> load_kmnist(const std::string& dir, Split split,
                                          MnistOptions options = {});

/// Reads emnist-PART-{train,test}-images-idx3-ubyte and -labels-idx1-ubyte from `dir` or from
/// EMNIST/raw or emnist in it. PART is byclass (62 classes), bymerge or balanced (47), letters (27:
/// its labels begin with 1, and class 0 is "N/A"), digits or mnist (10). As in torchvision, images
/// are transposed, as they are in the files. rondo does not download it; the files are in gzip.zip
/// of https://www.nist.gov/itl/products-and-services/emnist-dataset. Throws as load_mnist does, and
/// Error for another part.
std::shared_ptr<ImageDataset> load_emnist(const std::string& dir, const std::string& part,
                                          Split split, MnistOptions options = {});

/// The subfolders of a data set folder that may contain the four files, best first: "MNIST/raw" ….
const std::vector<std::string>& mnist_folders();
const std::vector<std::string>& fashion_mnist_folders();

}  // namespace rondo::data
