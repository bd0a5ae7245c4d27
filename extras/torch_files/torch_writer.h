#pragma once
// TorchWriter: writes Python values and tensors in the zip format of torch.save, with pickle
// protocol 2. Internal to extras/torch_files.

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "nn/module.h"

namespace rondo::io::detail {

class TorchWriter {
 public:
  /// `path` is for messages until `finish` writes the file.
  explicit TorchWriter(std::string path);

  void none() { opcode('N'); }
  void truth(bool value) { opcode(value ? 0x88 : 0x89); }
  void integer(std::int64_t value);
  void number(double value);
  /// Throws IoError if it is not UTF-8, which Python needs.
  void text(const std::string& value);
  /// Two numbers.
  void pair(double first, double second);
  // A key and its value follow each other.
  void begin_dict();
  void end_dict() { opcode('u'); }
  void begin_list();
  void end_list() { opcode('e'); }
  /// collections.Counter: how often each number occurs.
  void counter(const std::vector<std::int64_t>& values);
  /// Two identical views of the same memory are written once. Throws IoError naming an undefined
  /// tensor.
  void tensor(const std::string& name, const Tensor& x);
  /// A collections.OrderedDict. Throws IoError if two tensors have the same name.
  void state_dict(const nn::StateDict& tensors);

  /// Writes the file, atomically. Throws IoError.
  void finish();

 private:
  void opcode(unsigned char code) { pickle_ += static_cast<char>(code); }
  template <class T>
  void opcode(unsigned char code, T argument) {
    opcode(code);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &argument, sizeof(T));
    pickle_.append(bytes, sizeof(T));
  }
  void global(const std::string& module, const std::string& name);
  void tuple(const Dims& values);
  void empty_ordered_dict();

  using Place =
      std::tuple<const void*, DType, std::vector<std::int64_t>, std::vector<std::int64_t>>;

  std::string path_, pickle_;
  std::map<Place, std::string> keys_;  // of storages
  std::vector<Tensor> storages_;
};

}  // namespace rondo::io::detail
