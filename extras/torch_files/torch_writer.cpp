#include "extras/torch_files/torch_writer.h"

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "extras/torch_files/torch_pickle.h"
#include "io/atomic_file.h"
#include "io/zip.h"
#include "tensor/error.h"

namespace rondo::io {
namespace detail {
namespace {

/// The name of the storage type: torch.FloatStorage and others.
const char* storage_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "DoubleStorage";
    case DType::f32:
      return "FloatStorage";
    case DType::bf16:
      return "BFloat16Storage";
    case DType::f16:
      return "HalfStorage";
    case DType::i64:
      return "LongStorage";
    case DType::i32:
      return "IntStorage";
    case DType::u8:
      return "ByteStorage";
    case DType::i8:
      return "CharStorage";
    case DType::boolean:
      break;
  }
  return "BoolStorage";
}

bool is_utf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

TorchWriter::TorchWriter(std::string path) : path_(std::move(path)) {
  opcode(0x80, std::uint8_t{2});
}

void TorchWriter::integer(std::int64_t value) {
  if (value >= 0 && value <= std::numeric_limits<std::int32_t>::max())
    return opcode('J', static_cast<std::int32_t>(value));
  opcode(0x8a, std::uint8_t{8});  // LONG1
  char bytes[8];
  std::memcpy(bytes, &value, 8);
  pickle_.append(bytes, 8);
}

void TorchWriter::number(double value) {
  opcode('G', __builtin_bswap64(std::bit_cast<std::uint64_t>(value)));  // big-endian
}

void TorchWriter::text(const std::string& value) {
  require<IoError>(is_utf8(value), "cannot write ", path_, ": the name \"", value,
                   "\" is not UTF-8, which Python needs");
  opcode('X', static_cast<std::uint32_t>(value.size()));
  pickle_ += value;
}

void TorchWriter::pair(double first, double second) {
  number(first);
  number(second);
  opcode(0x86);
}

void TorchWriter::begin_dict() {
  opcode('}');
  opcode('(');
}

void TorchWriter::begin_list() {
  opcode(']');
  opcode('(');
}

void TorchWriter::counter(const std::vector<std::int64_t>& values) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t value : values) ++counts[value];
  global("collections", "Counter");
  begin_dict();
  for (const auto& [value, count] : counts) {
    integer(value);
    integer(count);
  }
  end_dict();
  opcode(0x85);  // the only argument
  opcode('R');
}

void TorchWriter::global(const std::string& module, const std::string& name) {
  pickle_ += concat('c', module, '\n', name, '\n');
}

void TorchWriter::tuple(const Dims& values) {
  opcode('(');
  for (const std::int64_t value : values) integer(value);
  opcode('t');
}

void TorchWriter::empty_ordered_dict() {
  global("collections", "OrderedDict");
  opcode(')');
  opcode('R');
}

void TorchWriter::tensor(const std::string& name, const Tensor& x) {
  require<IoError>(x.defined(), "cannot write ", path_, ": ", name, " is undefined");
  const Dims &sizes = x.shape(), &strides = x.strides();
  const auto [found, is_new] = keys_.emplace(
      Place{
          x.data_ptr(), x.dtype(), {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}},
      std::to_string(storages_.size()));
  if (is_new) storages_.push_back(x);
  global("torch._utils", "_rebuild_tensor_v2");
  opcode('(');
  opcode('(');
  text("storage");
  global("torch", storage_type(x.dtype()));
  text(found->second);
  text("cpu");
  integer(x.numel());
  opcode('t');
  opcode('Q');  // BINPERSID
  integer(0);
  tuple(x.shape());
  tuple(strides_of(x.shape(), MemoryFormat::contiguous));
  truth(false);  // requires_grad
  empty_ordered_dict();
  opcode('t');
  opcode('R');
}

void TorchWriter::state_dict(const nn::StateDict& tensors) {
  std::set<std::string> names;
  empty_ordered_dict();
  opcode('(');
  for (const auto& [name, x] : tensors) {
    require<IoError>(names.insert(name).second, "cannot write ", path_, ": two tensors are called ",
                     name);
    text(name);
    tensor(name, x);
  }
  end_dict();
}

void TorchWriter::finish() {
  opcode('.');
  AtomicFile file(path_);
  ZipWriter zip(file);
  zip.add("archive/data.pkl", pickle_.data(), pickle_.size());
  zip.add("archive/byteorder", "little", 6);
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const Tensor x = storages_[i].to(Device::cpu()).contiguous();
    zip.add("archive/data/" + std::to_string(i), x.data_ptr(),
            static_cast<std::size_t>(x.nbytes()));
  }
  zip.add("archive/version", "3\n", 2);
  zip.finish();
  file.commit();
}

}  // namespace detail

void save_torch(const std::string& path, const nn::StateDict& tensors) {
  detail::TorchWriter out(path);
  out.state_dict(tensors);
  out.finish();
}

}  // namespace rondo::io
