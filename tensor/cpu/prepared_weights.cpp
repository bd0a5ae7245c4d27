#include "tensor/cpu/prepared_weights.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "tensor/cpu/allocator.h"

namespace rondo::cpu {
namespace {

struct Prepared {
  WeightForm form;
  std::int64_t offset;
  StoragePtr made;  // null after the first use
};

/// What hangs on a storage: all of one version. Tensors that share memory without being views of
/// each other (set_data) count apart.
struct PreparedList final : StorageAttachment {
  VersionCounter counter;
  std::uint64_t version = 0;
  std::vector<Prepared> list;

  bool is_of(const Tensor& w) const {
    return counter == w.impl().version && version == w.version();
  }
};

std::mutex& mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

StoragePtr prepared_weight(const Tensor& w, const WeightForm& form, std::size_t bytes,
                           const std::function<void(void*)>& make) {
  constexpr std::size_t most = 16;  // forms of one weight: sizes of batch and image that it meets
  auto same = [&](const Prepared& p) { return p.form == form && p.offset == w.storage_offset(); };
  bool keep = false;
  {
    std::lock_guard lock(mutex());
    auto& attachment = w.storage()->attachment;
    if (attachment == nullptr) attachment = std::make_unique<PreparedList>();
    auto& known = static_cast<PreparedList&>(*attachment);
    if (!known.is_of(w) || known.list.size() > most) known.list.clear();
    known.counter = w.impl().version;
    known.version = w.version();
    const auto found = std::ranges::find_if(known.list, same);
    if (found == known.list.end()) {
      known.list.push_back({form, w.storage_offset(), nullptr});
    } else if (found->made != nullptr) {
      return found->made;
    } else {
      keep = true;
    }
  }
  auto made = std::make_shared<Storage>(bytes, CachingAllocator::instance());
  make(made->data());
  if (keep) {
    std::lock_guard lock(mutex());
    auto& known = static_cast<PreparedList&>(*w.storage()->attachment);
    const auto found = std::ranges::find_if(known.list, same);
    if (known.is_of(w) && found != known.list.end()) found->made = made;
  }
  return made;
}

}  // namespace rondo::cpu
