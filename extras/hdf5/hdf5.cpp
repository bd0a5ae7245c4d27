#include "extras/hdf5/hdf5.h"

#ifdef RONDO_HAS_HDF5
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>
#endif

#include "tensor/error.h"
#include "tensor/tensor.h"

namespace rondo::io {

#ifdef RONDO_HAS_HDF5
namespace {

/// Debian's libhdf5 is not thread-safe.
std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Compression reduces data to no less than 1/1,032.
constexpr std::uint64_t most_hdf5_gain = 1100;
constexpr std::size_t most_hdf5_objects = 1'000'000;
constexpr int most_hdf5_depth = 100;

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT: the library's functions take the number
  bool is_valid() const { return id_ >= 0; }

 private:
  hid_t id_;
  Close close_;
};

/// Why one data set is not read, although the file is valid.
struct NotATensor {
  std::string why;
};
template <class... Parts>
void can_be_tensor(bool condition, const Parts&... parts) {
  if (!condition) throw NotATensor{concat(parts...)};
}

/// The reason that the library gives for its last error.
std::string reason() {
  std::string text;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* error, void* data) -> herr_t {
        if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(data) = error->desc;
        return 0;
      },
      &text);
  return text.empty() ? "" : concat(" (", text, ")");
}

/// How a type of the file is read.
struct ReadAs {
  DType dtype;
  Handle type;  // in memory
};

Handle native(hid_t type) { return {H5Tcopy(type), H5Tclose}; }

/// The layout of a float of 16 bits: f16 or bf16.
std::optional<DType> half_kind(hid_t type) {
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0 ||
      sign != 15 || mantissa != 0 || exponent != mantissa_bits)
    return std::nullopt;
  const std::size_t bias = H5Tget_ebias(type);
  if (exponent_bits == 5 && mantissa_bits == 10 && bias == 15) return f16;
  if (exponent_bits == 8 && mantissa_bits == 7 && bias == 127) return bf16;
  return std::nullopt;
}

bool is_bool(hid_t type) {
  std::int8_t no = -1, yes = -1;
  return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 &&
         H5Tenum_valueof(type, "FALSE", &no) >= 0 && H5Tenum_valueof(type, "TRUE", &yes) >= 0 &&
         no == 0 && yes == 1;
}

ReadAs type_of(hid_t type) {
  const std::size_t bytes = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: {
      const bool is_signed = H5Tget_sign(type) != H5T_SGN_NONE;
      if (bytes == 1 && is_signed) return {i8, native(H5T_NATIVE_INT8)};
      if (bytes == 1) return {u8, native(H5T_NATIVE_UINT8)};
      if (bytes == 2 || (bytes == 4 && is_signed)) return {i32, native(H5T_NATIVE_INT32)};
      // Of u64 the bits are read, because the library would change values that do not fit.
      if (bytes == 8 && !is_signed) return {i64, native(H5T_NATIVE_UINT64)};
      if (bytes == 4 || bytes == 8) return {i64, native(H5T_NATIVE_INT64)};
      break;
    }
    case H5T_FLOAT:
      if (bytes == 4) return {f32, native(H5T_NATIVE_FLOAT)};
      if (bytes == 8) return {f64, native(H5T_NATIVE_DOUBLE)};
      if (const auto half = bytes == 2 ? half_kind(type) : std::nullopt) {
        Handle same = native(type);
        H5Tset_order(same, H5T_ORDER_LE);
        return {*half, std::move(same)};
      }
      break;
    case H5T_ENUM:
      if (is_bool(type)) return {boolean, native(type)};
      break;
    default:
      break;
  }
  throw NotATensor{"its elements are not numbers of a dtype that rondo has"};
}

class Hdf5Reader {
 public:
  explicit Hdf5Reader(const std::string& path) : path_(path), file_(open()) {}

  /// The paths of all data sets.
  std::vector<std::string> names(std::vector<LeftOut>* links = nullptr) const {
    std::vector<std::string> all;
    const Handle root(H5Gopen2(file_, "/", H5P_DEFAULT), H5Gclose);
    std::size_t objects = 0;
    walk(root, "", 0, objects, all, links);
    return all;
  }

  Tensor read(const std::string& name) const {
    const Handle set(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), H5Dclose);
    check(set.is_valid(), name, " cannot be opened", reason());
    require_own_data(set);
    const Handle type(H5Dget_type(set), H5Tclose), space(H5Dget_space(set), H5Sclose);
    check(type.is_valid() && space.is_valid(), name, " has no valid type or shape", reason());
    const H5S_class_t kind = H5Sget_simple_extent_type(space);
    can_be_tensor(kind == H5S_SCALAR || kind == H5S_SIMPLE, "it has no elements");
    const ReadAs as = type_of(type);
    const Tensor x = Tensor::empty(shape_of(name, space, size_of(as.dtype)), {.dtype = as.dtype});
    if (x.numel() == 0) return x;
    if (H5Dread(set, as.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, x.data_ptr()) < 0) {
      const std::string why = reason();
      require_known_filters(set);
      check(false, name, " cannot be read", why);
    }
    if (as.dtype == i64) {
      const bool is_signed = H5Tget_sign(as.type) != H5T_SGN_NONE;
      const auto* values = x.data_ptr<std::int64_t>();
      can_be_tensor(is_signed || std::all_of(values, values + x.numel(),
                                             [](std::int64_t value) { return value >= 0; }),
                    "it has numbers of 2^63 and more, for which rondo has no dtype");
    }
    if (as.dtype == boolean) {
      const auto* bytes = static_cast<const unsigned char*>(x.data_ptr());
      check(std::all_of(bytes, bytes + x.numel(), [](unsigned char byte) { return byte <= 1; }),
            name, " of bool holds a byte that is neither 0 nor 1");
    }
    return x;
  }

  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    require<IoError>(condition, path_, ": ", parts...);
  }
  /// What compression can make of the file, at the most.
  std::uint64_t most_bytes() const {
    std::error_code error;
    return (std::uint64_t{1} << 20) + most_hdf5_gain * std::filesystem::file_size(path_, error);
  }

 private:
  Handle open() const {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors are thrown, not printed
    std::error_code error;
    require<IoError>(!path_.empty(), "cannot read a file: its name is empty");
    check(std::filesystem::exists(path_, error), "no such file");
    check(!std::filesystem::is_directory(path_, error), "is a folder, not a file");
    check(std::filesystem::is_regular_file(path_, error), "not a file");
    check(H5Fis_hdf5(path_.c_str()) > 0, "is not an HDF5 file");
    Handle file(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    check(file.is_valid(), "cannot be opened", reason());
    return file;
  }

  /// For a data set that cannot be read.
  void require_known_filters(hid_t set) const {
    const Handle created(H5Dget_create_plist(set), H5Pclose);
    for (int i = 0; i < H5Pget_nfilters(created); ++i) {
      std::array<char, 64> name{};
      std::size_t none = 0;
      const H5Z_filter_t filter = H5Pget_filter2(created, static_cast<unsigned>(i), nullptr, &none,
                                                 nullptr, name.size(), name.data(), nullptr);
      can_be_tensor(H5Zfilter_avail(filter) > 0, "it needs the filter ", filter, " (", name.data(),
                    "), which this libhdf5 lacks");
    }
  }
  /// Data in other files are not read.
  void require_own_data(hid_t set) const {
    const Handle created(H5Dget_create_plist(set), H5Pclose);
    const H5D_layout_t layout = H5Pget_layout(created);
    can_be_tensor(layout == H5D_COMPACT || layout == H5D_CONTIGUOUS || layout == H5D_CHUNKED,
                  "it is a virtual data set, whose data are in other files");
    can_be_tensor(layout != H5D_CONTIGUOUS || H5Pget_external_count(created) <= 0,
                  "its data are in another file");
  }

  Dims shape_of(const std::string& name, hid_t space, std::size_t element) const {
    const int rank = H5Sget_simple_extent_ndims(space);
    can_be_tensor(rank >= 0 && rank <= Dims::max_rank, "it has ", rank,
                  " dimensions, but tensors have at most ", Dims::max_rank, " here");
    std::array<hsize_t, H5S_MAX_RANK> sizes{};
    check(H5Sget_simple_extent_dims(space, sizes.data(), nullptr) >= 0, name,
          " has no valid shape");
    const std::uint64_t most = most_bytes();
    Dims shape;
    std::uint64_t bytes = element;
    for (int d = 0; d < rank; ++d) {
      const std::uint64_t size = sizes[static_cast<std::size_t>(d)];
      check(size <= most, name, " claims more bytes than the file can hold");
      bytes = bytes > most ? bytes : bytes * std::max<std::uint64_t>(size, 1);
      check(bytes <= most, name, " claims more bytes than the file can hold");
      shape.push_back(static_cast<std::int64_t>(size));
    }
    return shape;
  }

  void walk(hid_t group, const std::string& prefix, int depth, std::size_t& objects,
            std::vector<std::string>& all, std::vector<LeftOut>* links) const {
    check(depth < most_hdf5_depth, "its groups are nested more than ", most_hdf5_depth, " deep");
    H5G_info_t info;
    check(H5Gget_info(group, &info) >= 0, "a group cannot be read", reason());
    for (hsize_t i = 0; i < info.nlinks; ++i) {
      check(++objects <= most_hdf5_objects, "has more than ", most_hdf5_objects, " objects");
      const ssize_t length =
          H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, nullptr, 0, H5P_DEFAULT);
      check(length >= 0, "the name of an object cannot be read", reason());
      std::string name(static_cast<std::size_t>(length) + 1, '\0');
      H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(),
                         H5P_DEFAULT);
      name.pop_back();
      H5L_info_t link;
      check(H5Lget_info(group, name.c_str(), &link, H5P_DEFAULT) >= 0, prefix, name,
            " cannot be read", reason());
      if (link.type != H5L_TYPE_HARD) {
        if (links != nullptr)
          links->push_back({prefix + name, link.type == H5L_TYPE_SOFT
                                               ? "is a soft link, to another name in the file"
                                               : "is in another file"});
        continue;
      }
      const Handle object(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose);
      check(object.is_valid(), prefix, name, " cannot be opened", reason());
      if (H5Iget_type(object) == H5I_DATASET) all.push_back(prefix + name);
      if (H5Iget_type(object) == H5I_GROUP)
        walk(object, concat(prefix, name, '/'), depth + 1, objects, all, links);
    }
  }

  const std::string& path_;
  Handle file_;
};

}  // namespace

Tensor load_hdf5(const std::string& path, const std::string& name) {
  const std::lock_guard lock(hdf5_mutex());
  const Hdf5Reader reader(path);
  const std::string wanted = name.starts_with('/') ? name.substr(1) : name;
  const std::vector<std::string> names = reader.names();
  std::string others;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 5); ++i)
    others += (i == 0 ? "" : ", ") + names[i];
  reader.check(std::ranges::find(names, wanted) != names.end(), "has no data set ", name,
               "; it has ", names.empty() ? "none" : others, names.size() > 5 ? ", …" : "");
  try {
    return reader.read(wanted);
  } catch (const NotATensor& reason) {
    throw IoError(concat(path, ": ", name, " cannot be a tensor: ", reason.why));
  }
}

Hdf5File load_hdf5(const std::string& path) {
  const std::lock_guard lock(hdf5_mutex());
  const Hdf5Reader reader(path);
  Hdf5File file;
  std::uint64_t bytes = 0;
  for (const std::string& name : reader.names(&file.left_out)) {
    try {
      file.tensors.push_back({name, reader.read(name)});
      bytes += static_cast<std::uint64_t>(file.tensors.back().tensor.nbytes());
      reader.check(bytes <= reader.most_bytes(), name,
                   " and those before it claim more bytes than the file can hold");
    } catch (const NotATensor& reason) {
      file.left_out.push_back({name, reason.why});
    }
  }
  std::ranges::sort(file.left_out, {}, &LeftOut::name);
  return file;
}

#else

Tensor load_hdf5(const std::string& path, const std::string&) {
  throw Error(concat(path, ": cannot be read: rondo was built without HDF5 (apt-get install ",
                     "libhdf5-dev, and configure again)"));
}
Hdf5File load_hdf5(const std::string& path) {
  load_hdf5(path, "");
  return {};
}

#endif

}  // namespace rondo::io
