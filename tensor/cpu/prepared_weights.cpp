#include "tensor/cpu/prepared_weights.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "tensor/cpu/allocator.h"

namespace rondo::cpu {
namespace {

/// What is seen of a storage by a tensor at one version, in one form. Tensors that share memory
/// without being views of each other (set_data) count versions apart.
struct Prepared {
  WeightForm form;
  VersionCounter counter;
  std::uint64_t version;
  std::int64_t offset;
  Dims shape;
  DType dtype;
  int uses = 0;
  StoragePtr made = nullptr;

  Prepared(const Tensor& w, const WeightForm& form)
      : form(form),
        counter(w.impl().version),
        version(w.version()),
        offset(w.storage_offset()),
        shape(w.shape()),
        dtype(w.dtype()) {}
  bool is_same(const Prepared& other) const {
    return counter == other.counter && version == other.version && offset == other.offset &&
           shape == other.shape && dtype == other.dtype && form == other.form;
  }
  bool is_outdated_by(const Prepared& other) const {
    return counter == other.counter && version != other.version;
  }
};

struct PreparedList final : StorageAttachment {
  std::vector<Prepared> list;
  Prepared* find(const Prepared& wanted) {
    const auto at = std::ranges::find_if(list, [&](auto& p) { return p.is_same(wanted); });
    return at == list.end() ? nullptr : &*at;
  }
};

std::mutex& mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

StoragePtr prepared_weight(const Tensor& w, const WeightForm& form, std::size_t bytes,
                           const std::function<void(void*)>& make) {
  constexpr std::size_t most = 256;  // tensors in one storage, times the layouts that they meet
  constexpr int first_kept = 3;
  const Prepared wanted(w, form);
  bool keep = false;
  {
    std::lock_guard lock(mutex());
    auto& attachment = w.storage()->attachment;
    if (attachment == nullptr) attachment = std::make_unique<PreparedList>();
    auto& known = static_cast<PreparedList&>(*attachment);
    std::erase_if(known.list, [&](const Prepared& p) { return p.is_outdated_by(wanted); });
    Prepared* found = known.find(wanted);
    if (found == nullptr) {
      if (known.list.size() >= most) known.list.clear();
      found = &known.list.emplace_back(wanted);
    }
    if (found->made != nullptr) return found->made;
    keep = ++found->uses >= first_kept;
  }
  const AllocationTag tag("prepared weights");
  auto made = std::make_shared<Storage>(bytes, CachingAllocator::instance());
  make(made->data());
  if (keep) {
    // Under the version that it was asked for: a weight that was written meanwhile has another.
    std::lock_guard lock(mutex());
    if (Prepared* found = static_cast<PreparedList&>(*w.storage()->attachment).find(wanted))
      found->made = made;
  }
  return made;
}

}  // namespace rondo::cpu
