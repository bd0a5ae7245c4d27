#include "data/svhn.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>

#include "data/files.h"

namespace rondo::data {
namespace {

using MatBytes = std::span<const std::uint8_t>;

/// The kinds of elements in a MAT-file.
enum MatType : std::uint32_t {
  mat_i8 = 1,
  mat_u8 = 2,
  mat_i32 = 5,
  mat_u32 = 6,
  mat_f64 = 9,
  mat_matrix = 14,
  mat_compressed = 15,
};

/// An array of numbers in column-major order.
struct MatArray {
  std::vector<std::int64_t> sizes;
  std::uint32_t type = 0;
  std::vector<std::uint8_t> bytes;

  double at(std::size_t i) const {
    if (type == mat_u8) return bytes[i];
    double value = 0;
    std::memcpy(&value, bytes.data() + 8 * i, 8);
    return value;
  }
};

class MatFile {
 public:
  explicit MatFile(const std::filesystem::path& path) : path_(path.string()) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size_of_file(path)));
    std::ifstream in(path, std::ios::binary);
    in.read(reinterpret_cast<char*>(bytes.data()), std::ssize(bytes));
    check(in.gcount() == std::ssize(bytes), "cannot be read");
    constexpr std::size_t header = 128;
    check(bytes.size() >= header && bytes[126] == 'I' && bytes[127] == 'M' && bytes[125] == 1,
          "is not a little-endian MAT-file of level 5");
    for (MatBytes rest = MatBytes(bytes).subspan(header); !rest.empty();) {
      const Element element = take(rest, /*is_padded=*/false);
      if (element.type == mat_compressed) {
        const std::vector<std::uint8_t> unpacked = inflated(element.data);
        MatBytes inner(unpacked);
        add(take(inner, true));
      } else {
        add(element);
      }
    }
  }

  const MatArray& array(const std::string& name) const {
    const auto found = arrays_.find(name);
    check(found != arrays_.end(), "has no array ", name, " of bytes or doubles");
    return found->second;
  }
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    require<IoError>(condition, path_, ": ", parts...);
  }

 private:
  struct Element {
    std::uint32_t type = 0;
    MatBytes data;
  };

  /// The next element; `bytes` becomes the rest.
  Element take(MatBytes& bytes, bool is_padded) const {
    const auto word = [&](std::size_t i) {
      std::uint32_t value = 0;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      return value;
    };
    check(bytes.size() >= 8, "is cut short");
    // A small element has its length in the upper half of the first word, and up to four bytes.
    const bool is_small = word(0) >> 16 != 0;
    const std::uint32_t type = is_small ? word(0) & 0xffff : word(0);
    const std::size_t length = is_small ? word(0) >> 16 : word(1), begin = is_small ? 4 : 8;
    check(is_small ? length <= 4 : length <= bytes.size() - begin, "is cut short");
    const Element element{type, bytes.subspan(begin, length)};
    const std::size_t end = is_small ? 8 : begin + (is_padded ? (length + 7) / 8 * 8 : length);
    bytes = bytes.subspan(std::min(end, bytes.size()));
    return element;
  }

  std::vector<std::uint8_t> inflated(MatBytes packed) const {
    constexpr std::size_t most_gain = 1032;  // of deflate
    std::vector<std::uint8_t> bytes(8);
    z_stream stream{};
    check(inflateInit(&stream) == Z_OK, "zlib could not be started");
    const auto unpack = [&](std::size_t from) {
      stream.next_out = bytes.data() + from;
      stream.avail_out = static_cast<uInt>(bytes.size() - from);
      return inflate(&stream, Z_SYNC_FLUSH);
    };
    stream.next_in = const_cast<Bytef*>(packed.data());
    stream.avail_in = static_cast<uInt>(packed.size());
    int status = unpack(0);  // the first element's length is the length of the rest
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data() + 4, 4);
    const bool fits =
        status == Z_OK && stream.avail_out == 0 && length <= most_gain * packed.size();
    if (fits) {
      bytes.resize(8 + std::size_t{length});
      status = unpack(8);
    }
    const bool is_complete = fits && stream.avail_out == 0;
    inflateEnd(&stream);
    check(is_complete && (status == Z_OK || status == Z_STREAM_END),
          "a compressed array is damaged");
    return bytes;
  }

  /// Keeps an array of bytes or doubles; skips all others.
  void add(const Element& matrix) {
    if (matrix.type != mat_matrix) return;
    MatBytes rest = matrix.data;
    const Element flags = take(rest, true), dims = take(rest, true), name = take(rest, true);
    check(flags.type == mat_u32 && dims.type == mat_i32 && name.type == mat_i8,
          "has an array without a size or a name");
    if (rest.empty()) return;
    const Element data = take(rest, true);
    if (data.type != mat_u8 && data.type != mat_f64) return;
    MatArray array{.sizes = {}, .type = data.type, .bytes = {data.data.begin(), data.data.end()}};
    std::uint64_t bytes = data.type == mat_f64 ? 8 : 1;
    for (std::size_t i = 0; i + 4 <= dims.data.size(); i += 4) {
      std::int32_t size = 0;
      std::memcpy(&size, dims.data.data() + i, 4);
      check(size >= 0 && bytes <= data.data.size(), "has an array of an invalid size");
      array.sizes.push_back(size);
      bytes *= static_cast<std::uint64_t>(size);
    }
    check(bytes == data.data.size(), "has an array of another size than its data");
    arrays_[std::string(name.data.begin(), name.data.end())] = std::move(array);
  }

  std::string path_;
  std::map<std::string, MatArray> arrays_;
};

}  // namespace

std::shared_ptr<ImageDataset> load_svhn(const std::string& dir, Split split, SvhnOptions options) {
  const MatFile file(std::filesystem::path(dir) / concat(name_of(split), "_32x32.mat"));
  const MatArray &x = file.array("X"), &y = file.array("y");
  file.check(x.type == mat_u8 && x.sizes.size() == 4 && x.sizes[0] == 32 && x.sizes[1] == 32 &&
                 x.sizes[2] == 3,
             "X is not an array of bytes of size 32 x 32 x 3 x N");
  file.check(y.sizes.size() == 2 && y.sizes[0] == x.sizes[3] && y.sizes[1] == 1,
             "y does not have one label for each of the ", x.sizes[3], " images");
  file.check(!options.limit || *options.limit > 0, "limit of ", options.limit.value_or(0),
             " images: it should be at least 1");
  const std::int64_t count = std::min(x.sizes[3], options.limit.value_or(x.sizes[3]));
  const Tensor images = Tensor::empty({count, 3, 32, 32}, {.dtype = u8}),
               labels = Tensor::empty({count}, {.dtype = i64});
  auto* pixel = images.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const double label = y.at(static_cast<std::size_t>(i));
    file.check(label >= 1 && label <= 10 && std::trunc(label) == label, "image ", i, " has label ",
               label, ", but labels are 1 to 10");
    labels.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(label) % 10;
    const std::uint8_t* image = x.bytes.data() + i * 3072;  // column-major (32, 32, 3)
    for (std::int64_t c = 0; c < 3; ++c)
      for (std::int64_t row = 0; row < 32; ++row)
        for (std::int64_t column = 0; column < 32; ++column)
          *pixel++ = image[c * 1024 + column * 32 + row];
  }
  return std::make_shared<ImageDataset>(
      images, labels, std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

}  // namespace rondo::data
