#pragma once
// TorchObject: the object of a file of torch.save's, as far as it is tensors. It says which
// storages it needs; whoever has read the file's form (torch_pickle.cpp) fills them; `finish` makes
// tensors of them. Internal to io/.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/pickle.h"
#include "io/torch_pickle.h"

namespace rondo::io::detail {

/// The names that may be in such a file.
const std::set<std::string>& torch_globals();

struct WantedStorage {
  std::string key;
  DType dtype = f32;
  std::uint64_t bytes = 0;
  StoragePtr memory = nullptr;

  /// Memory for it, to be filled.
  void* allocate();
};

class TorchObject {
 public:
  /// Finds the tensors of `pickle`, which must outlive this, in the dict that `entry` names
  /// (TorchFileOptions). Throws IoError "FILE: …"; `file_bytes` limits what it may claim to hold.
  TorchObject(const Pickle& pickle, const std::string& entry, const std::string& file,
              std::size_t file_bytes);

  std::vector<WantedStorage>& storages() { return storages_; }
  /// Bytes of an element, by key, of all storages that the pickle names, wanted or not.
  std::unordered_map<std::string_view, std::uint64_t> element_bytes() const;
  /// Throws IoError when a storage was not filled, or one of bools holds something else.
  TorchFile finish();

 private:
  struct WantedTensor {
    std::string name;
    std::size_t storage = 0;  // which of the wanted ones
    std::int64_t offset = 0;  // elements
    Dims sizes, strides;
  };
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const;
  bool has_tensors(const PickleDict& dict);
  const PickleDict* choose(const PickleDict& outer);
  const PickleDict* descend(const PickleDict& from, const std::string& path);
  void add_metadata(const PickleDict& dict);
  std::int64_t integer(const PickleValue* value, const std::string& name) const;
  Dims dims(const PickleValue* value, const std::string& name) const;
  void add_tensor(const std::string& name, const PickleValue* value);
  std::size_t find_storage(const std::string& name, const PickleValue* value);
  void check_extent(WantedTensor& tensor) const;

  const Pickle& pickle_;
  const std::string& file_;
  std::size_t file_bytes_;
  std::vector<WantedStorage> storages_;
  std::vector<WantedTensor> tensors_;
  std::string entry_;
  std::map<std::string, std::string> metadata_;
  std::uint64_t wanted_bytes_ = 0;
  std::map<const PickleDict*, bool> known_;  // whether it has tensors
  std::unordered_map<std::string_view, std::size_t> tensor_of_, storage_of_;
};

}  // namespace rondo::io::detail
