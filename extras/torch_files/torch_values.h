#pragma once
// The meaning of pickle values in a torch.save file: tensors, storages, modules. Internal to
// extras/torch_files.

#include <optional>
#include <string>
#include <string_view>

#include "extras/torch_files/pickle.h"
#include "io/stored_type.h"

namespace rondo::io::detail {

/// The functions that create tensors and whose arguments are understood here.
inline constexpr std::string_view rebuild_v2 = "torch._utils._rebuild_tensor_v2",
                                  rebuild_v3 = "torch._utils._rebuild_tensor_v3",
                                  rebuild = "torch._utils._rebuild_tensor",
                                  rebuild_parameter = "torch._utils._rebuild_parameter",
                                  rebuild_parameter_with_state =
                                      "torch._utils._rebuild_parameter_with_state",
                                  rebuild_subclass = "torch._tensor._rebuild_from_type_v2";

/// A persistent id: ("storage", type, key, device, elements, view or None).
struct StorageId {
  const StoredType* type = nullptr;  // null: a storage of bytes, or unknown
  bool is_bytes = false;
  std::string_view type_name, key;  // from the pickle
  const PickleValue *numel = nullptr, *view = nullptr;
};

std::optional<StorageId> read_storage_id(const PickleValue* value);

/// The type for a name such as "torch.uint16"; null if unknown.
const StoredType* type_of_dtype(std::string_view name);

/// Whether Python would create a tensor from it, including kinds that are not read: sparse,
/// quantised.
bool is_tensor(const PickleValue* value);
/// Whether it is from torch.save(model): an object with the attributes that every torch.nn.Module
/// has.
bool is_module(const PickleValue* value);
/// The class of an object: "argparse.Namespace".
std::string class_of(const PickleCall& object);
/// Whether it is a NumPy array, in pickle protocols up to 4 and from 5 on.
bool is_numpy_array(const PickleCall& object);

/// A key as part of a name: a text, or "0" for 0, because the state of an optimizer numbers its
/// parameters. Empty for any other type.
std::string key_text(const PickleValue* key);
bool has_key(const PickleDict& dict, std::string_view wanted);

}  // namespace rondo::io::detail
