#pragma once
// TorchObject: the tensors in the object of a torch.save file. It lists the storages that it needs;
// the caller, which has read the file format (torch_pickle.cpp), fills them; `finish` then creates
// the tensors. Internal to extras/torch_files.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "extras/torch_files/pickle.h"
#include "extras/torch_files/torch_pickle.h"
#include "io/stored_type.h"

namespace rondo::io::detail {

struct WantedStorage {
  std::string key;
  std::uint64_t bytes = 0;
  StoragePtr memory = nullptr;

  /// Allocates memory for the storage, to be filled by the caller.
  void* allocate();
};

class TorchObject {
 public:
  /// Finds the tensors of `pickle`, which must outlive this object, in the dict that `entry` names
  /// (TorchFileOptions). Throws IoError "FILE: …"; `file_bytes` limits the amount of data that the
  /// object may claim to have.
  TorchObject(const Pickle& pickle, const std::string& entry, const std::string& file,
              std::size_t file_bytes);

  std::vector<WantedStorage>& storages() { return storages_; }
  /// The bytes per element, by key, of all storages that the pickle names, needed or not.
  std::unordered_map<std::string_view, std::uint64_t> element_bytes() const;
  /// Throws IoError if a storage was not filled, or if a bool storage has a byte other than 0 and
  /// 1.
  TorchFile finish();

 private:
  struct WantedTensor {
    std::string name;
    const StoredType* type = nullptr;
    std::size_t storage = 0;  // index into storages_
    std::int64_t offset = 0;  // in elements
    Dims sizes, strides;
  };
  /// Whether a value contains these, at any depth.
  struct Contents {
    bool tensors = false;  // in dicts and lists
    bool weights = false;  // the same, without the states of optimizers
    bool hidden = false;   // tensors in objects, which are not read
  };
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const;
  void spend(std::size_t bytes);
  Contents contents(const PickleValue* value, int depth = 0);
  const PickleValue* choose(const PickleValue* outer);
  const PickleValue* descend(const PickleValue* from, const std::string& path);
  void add_metadata(const PickleValue* from, const PickleValue* chosen);
  void check_not_module(const PickleValue* value, const std::string& name) const;
  void add_values(const std::string& name, const PickleValue* value, int depth);
  void leave_out(const std::string& name, std::string why);
  void require_tensors() const;
  std::int64_t integer(const PickleValue* value, const std::string& name) const;
  Dims dims(const PickleValue* value, const std::string& name) const;
  WantedTensor read_tensor(const std::string& name, const PickleValue* value);
  std::pair<std::size_t, const StoredType*> find_storage(const std::string& name,
                                                         const PickleValue* storage,
                                                         const PickleValue* dtype);
  void check_extent(WantedTensor& tensor) const;
  StoragePtr convert(const WantedStorage& storage, const StoredType& type) const;

  const Pickle& pickle_;
  const std::string& file_;
  std::size_t file_bytes_, memory_left_;
  std::vector<WantedStorage> storages_;
  std::vector<WantedTensor> tensors_;
  std::vector<LeftOut> left_out_;
  std::string entry_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::string> others_;
  std::uint64_t wanted_bytes_ = 0;
  std::unordered_map<const PickleValue*, Contents> known_;
  std::unordered_map<std::string_view, std::size_t> storage_of_;
  std::unordered_set<std::string> names_;
  std::map<std::pair<std::size_t, const StoredType*>, StoragePtr> converted_;
};

/// The object of a file's bytes, without the contents of its storages. Throws IoError as
/// parse_torch does.
Pickle parse_torch_object(std::span<const std::byte> bytes, const std::string& name);

}  // namespace rondo::io::detail
