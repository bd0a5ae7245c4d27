#pragma once
// What the values of a pickle mean in a file of torch.save's: tensors, storages, modules. Internal
// to io/.

#include <optional>
#include <string>
#include <string_view>

#include "extras/torch_files/pickle.h"
#include "io/stored_type.h"

namespace rondo::io::detail {

/// The functions that make tensors, as far as their arguments are known here.
inline constexpr std::string_view rebuild_v2 = "torch._utils._rebuild_tensor_v2",
                                  rebuild_v3 = "torch._utils._rebuild_tensor_v3",
                                  rebuild = "torch._utils._rebuild_tensor",
                                  rebuild_parameter = "torch._utils._rebuild_parameter",
                                  rebuild_parameter_with_state =
                                      "torch._utils._rebuild_parameter_with_state",
                                  rebuild_subclass = "torch._tensor._rebuild_from_type_v2";

/// A persistent id: ("storage", type, key, device, elements, view or None).
struct StorageId {
  const StoredType* type = nullptr;  // null: of bytes, or not known
  bool is_bytes = false;
  std::string_view type_name, key;  // the pickle's
  const PickleValue *numel = nullptr, *view = nullptr;
};

std::optional<StorageId> read_storage_id(const PickleValue* value);

/// Of "torch.uint16"; null: it is not known.
const StoredType* type_of_dtype(std::string_view name);

/// Whether Python would make a tensor of it, also one of a kind that is not read: sparse,
/// quantised.
bool is_tensor(const PickleValue* value);
/// torch.save(model): an object with what each torch.nn.Module has.
bool is_module(const PickleValue* value);
/// The class of an object: "argparse.Namespace".
std::string class_of(const PickleCall& object);
/// As numpy pickles one, up to protocol 4 and from 5 on.
bool is_numpy_array(const PickleCall& object);

/// A key as part of a name: a text, or "0" of 0, since the state of an optimizer numbers its
/// parameters. Empty for any other.
std::string key_text(const PickleValue* key);
bool has_key(const PickleDict& dict, std::string_view wanted);

}  // namespace rondo::io::detail
