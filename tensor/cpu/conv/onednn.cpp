// Convolution's three passes through oneDNN (Note [Layouts on the CPU] in tensor/cpu/onednn.h).

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/prepared_weights.h"

namespace rondo::cpu {
namespace {

/// The dense weight (K, C/groups, R, S) as a oneDNN memory.
dnnl::memory dense_weight(const Tensor& w, std::int64_t groups) {
  using tag = dnnl::memory::format_tag;
  auto type = data_type_of(w.dtype());
  dnnl::memory::dims dims = {w.size(0), w.size(1), w.size(2), w.size(3)};
  if (groups > 1) dims = {groups, w.size(0) / groups, w.size(1), w.size(2), w.size(3)};
  return memory_of({dims, type, groups > 1 ? tag::goihw : tag::oihw}, w.data_ptr());
}

/// Memory for a weight in the layout that a primitive needs.
struct BlockedWeight {
  explicit BlockedWeight(const dnnl::memory::desc& desc)
      : storage(std::make_shared<Storage>(desc.get_size(), CachingAllocator::instance())),
        memory(memory_of(desc, storage->data())) {}
  /// Filled from the dense weight w, now or in an earlier call.
  BlockedWeight(const std::shared_ptr<const Primitive>& primitive, const Tensor& w,
                std::int64_t groups)
      : storage(prepared_weight(w, {.layout = primitive->weights}, primitive->weights.get_size(),
                                [&](void* data) {
                                  reorder(dense_weight(w, groups),
                                          memory_of(primitive->weights, data));
                                })),
        memory(memory_of(primitive->weights, storage->data())) {}
  StoragePtr storage;
  dnnl::memory memory;
};

/// Activations in the layout that a primitive needs: the channels_last tensor's own memory, or
/// scratch memory in blocks, filled from the tensor before the call (load) or copied to it
/// afterwards (store).
class Activations {
 public:
  Activations(const Primitive& primitive, const dnnl::memory::desc& desc, const Tensor& t)
      : tensor_(t) {
    if (primitive.blocked && t.size(1) != 16) {
      storage_ = Tensor::empty({static_cast<std::int64_t>(desc.get_size())}, {.dtype = u8});
      memory = memory_of(desc, storage_.data_ptr());
    } else {
      memory = memory_of(desc, t.data_ptr());
    }
  }
  const dnnl::memory& load() const {
    if (storage_.defined()) reorder(channels_last(tensor_), memory);
    return memory;
  }
  void store() const {
    if (storage_.defined()) reorder(memory, channels_last(tensor_));
  }
  dnnl::memory memory;

 private:
  Tensor tensor_, storage_;
};

void forward(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
             const Conv2dParams& params) {
  const auto prepared =
      convolution(describe(Conv2dProblem::Pass::forward, x, w, y, params, bias.defined()));
  const Primitive& primitive = *prepared;
  const BlockedWeight weight(prepared, w, params.groups);
  Activations input(primitive, primitive.source, x);
  Activations output(primitive, primitive.destination, y);
  std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, input.load()},
                                                     {DNNL_ARG_WEIGHTS, weight.memory},
                                                     {DNNL_ARG_DST, output.memory}};
  if (bias.defined()) arguments.emplace(DNNL_ARG_BIAS, memory_of(primitive.bias, bias.data_ptr()));
  execute(primitive, std::move(arguments));
  output.store();
}

void backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                    const Conv2dParams& params) {
  const auto prepared =
      convolution(describe(Conv2dProblem::Pass::backward_input, dx, w, dy, params, false));
  const Primitive& primitive = *prepared;
  const BlockedWeight weight(prepared, w, params.groups);
  Activations above(primitive, primitive.destination, dy);
  Activations below(primitive, primitive.source, dx);
  execute(primitive, {{DNNL_ARG_DIFF_DST, above.load()},
                      {DNNL_ARG_WEIGHTS, weight.memory},
                      {DNNL_ARG_DIFF_SRC, below.memory}});
  below.store();
}

void backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& dbias,
                     const Conv2dParams& params) {
  const auto prepared = convolution(
      describe(Conv2dProblem::Pass::backward_weight, x, dw, dy, params, dbias.defined()));
  const Primitive& primitive = *prepared;
  BlockedWeight weight(primitive.weights);
  Activations below(primitive, primitive.source, x);
  Activations above(primitive, primitive.destination, dy);
  std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, below.load()},
                                                     {DNNL_ARG_DIFF_DST, above.load()},
                                                     {DNNL_ARG_DIFF_WEIGHTS, weight.memory}};
  if (dbias.defined())
    arguments.emplace(DNNL_ARG_DIFF_BIAS, memory_of(primitive.bias, dbias.data_ptr()));
  execute(primitive, std::move(arguments));
  reorder(weight.memory, dense_weight(dw, params.groups));
}

}  // namespace

const ConvAlgorithm conv::onednn{"onednn", [](const Conv2dProblem&) { return true; }, forward,
                                 backward_input, backward_weight};

}  // namespace rondo::cpu
