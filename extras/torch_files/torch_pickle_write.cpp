// save_torch: writes the zip format with pickle protocol 2, as torch.save does.

#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "extras/torch_files/torch_pickle.h"
#include "io/atomic_file.h"
#include "io/zip.h"
#include "tensor/error.h"

namespace rondo::io {
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

class PickleWriter {
 public:
  PickleWriter() { opcode(0x80, std::uint8_t{2}); }

  void opcode(unsigned char code) { text_ += static_cast<char>(code); }
  template <class T>
  void opcode(unsigned char code, T argument) {
    opcode(code);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &argument, sizeof(T));
    text_.append(bytes, sizeof(T));
  }
  void global(const std::string& module, const std::string& name) {
    text_ += concat('c', module, '\n', name, '\n');
  }
  void text(const std::string& value) {
    opcode('X', static_cast<std::uint32_t>(value.size()));
    text_ += value;
  }
  void integer(std::int64_t value) {
    if (value >= 0 && value <= std::numeric_limits<std::int32_t>::max())
      return opcode('J', static_cast<std::int32_t>(value));
    opcode(0x8a, std::uint8_t{8});  // LONG1
    char bytes[8];
    std::memcpy(bytes, &value, 8);
    text_.append(bytes, 8);
  }
  void tuple(const Dims& values) {
    opcode('(');
    for (std::int64_t value : values) integer(value);
    opcode('t');
  }
  void empty_ordered_dict() {
    global("collections", "OrderedDict");
    opcode(')');
    opcode('R');
  }
  const std::string& finish() {
    opcode('.');
    return text_;
  }

 private:
  std::string text_;
};

void write_tensor(PickleWriter& out, const Tensor& x, const std::string& key) {
  out.global("torch._utils", "_rebuild_tensor_v2");
  out.opcode('(');
  out.opcode('(');
  out.text("storage");
  out.global("torch", storage_type(x.dtype()));
  out.text(key);
  out.text("cpu");
  out.integer(x.numel());
  out.opcode('t');
  out.opcode('Q');  // BINPERSID
  out.integer(0);
  out.tuple(x.shape());
  out.tuple(strides_of(x.shape(), MemoryFormat::contiguous));
  out.opcode(0x89);  // requires_grad is False
  out.empty_ordered_dict();
  out.opcode('t');
  out.opcode('R');
}

}  // namespace

void save_torch(const std::string& path, const nn::StateDict& tensors) {
  // Tensors that share a storage: identical views of the same memory.
  using Place =
      std::tuple<const void*, DType, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<Place, std::string> keys;
  std::vector<Tensor> storages;
  std::set<std::string> names;
  PickleWriter out;
  out.empty_ordered_dict();
  out.opcode('(');
  for (const auto& [name, tensor] : tensors) {
    require<IoError>(tensor.defined(), "cannot write ", path, ": ", name, " is undefined");
    require<IoError>(is_utf8(name), "cannot write ", path, ": the name \"", name,
                     "\" is not UTF-8, which Python needs");
    require<IoError>(names.insert(name).second, "cannot write ", path, ": two tensors are called ",
                     name);
    const Dims &sizes = tensor.shape(), &strides = tensor.strides();
    const auto [found, is_new] = keys.emplace(Place{tensor.data_ptr(),
                                                    tensor.dtype(),
                                                    {sizes.begin(), sizes.end()},
                                                    {strides.begin(), strides.end()}},
                                              std::to_string(storages.size()));
    if (is_new) storages.push_back(tensor);
    out.text(name);
    write_tensor(out, tensor, found->second);
  }
  out.opcode('u');
  const std::string& pickle = out.finish();

  AtomicFile file(path);
  ZipWriter zip(file);
  zip.add("archive/data.pkl", pickle.data(), pickle.size());
  zip.add("archive/byteorder", "little", 6);
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Tensor x = storages[i].to(Device::cpu()).contiguous();
    zip.add("archive/data/" + std::to_string(i), x.data_ptr(),
            static_cast<std::size_t>(x.nbytes()));
  }
  zip.add("archive/version", "3\n", 2);
  zip.finish();
  file.commit();
}

}  // namespace rondo::io
