// One optimizer step over one parameter, element by element (tensor/optimizer_rule.h). The learning
// rate and the step count are read on the device: the host never needs to know them, and a captured
// graph goes on with new ones.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"
#include "tensor/optimizer_rule.h"

namespace rondo::cuda {
namespace {

/// A tensor's elements in memory order, as C; a null pointer stands for no tensor.
template <class C>
struct Column {
  char* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t size = 0;

  explicit Column(const Tensor& x) {
    if (!x.defined()) return;
    data = static_cast<char*>(x.data_ptr());
    dtype = x.dtype();
    size = size_of(dtype);
  }
  RONDO_HD bool is_there() const { return data != nullptr; }
  RONDO_HD C get(std::int64_t i) const { return load<C>(dtype, data + i * size); }
  RONDO_HD void set(std::int64_t i, C value) const { store(dtype, data + i * size, value); }
};

template <class C>
struct SgdStep {
  Column<C> p, g, buffer;
  const double* lr;
  SgdParams params;
  RONDO_HD void operator()(std::int64_t i) const {
    const SgdRule<C> rule(*lr, params);
    C weight = p.get(i);
    if (!buffer.is_there()) {
      rule(weight, g.get(i));
    } else {
      C momentum = rule.first_step ? C(0) : buffer.get(i);
      rule(weight, g.get(i), momentum);
      buffer.set(i, momentum);
    }
    p.set(i, weight);
  }
};

/// Powers of the betas, once for all elements.
template <class C>
struct MakeAdamRule {
  const double *lr, *step;
  AdamParams params;
  AdamRule<C>* rule;
  RONDO_HD void operator()(std::int64_t) const { *rule = AdamRule<C>(*lr, *step, params); }
};

template <class C>
struct AdamStep {
  Column<C> p, g, m, v, max_v;
  const AdamRule<C>* rule;
  RONDO_HD void operator()(std::int64_t i) const {
    const AdamRule<C> r = *rule;
    C weight = p.get(i), first = m.get(i), second = v.get(i);
    r.moments(weight, g.get(i), first, second);
    m.set(i, first);
    v.set(i, second);
    if (max_v.is_there()) {
      const C before = max_v.get(i);
      second = second > before ? second : before;
      max_v.set(i, second);
    }
    r.step(weight, first, second);
    p.set(i, weight);
  }
};

}  // namespace

void CudaBackend::sgd_step(const Tensor& p, const Tensor& g, const Tensor& buffer, const Tensor& lr,
                           const SgdParams& params) {
  visit_float_compute(p.dtype(), "sgd_step", [&]<class C>() {
    for_each(
        device_, p.numel(),
        SgdStep<C>{Column<C>(p), Column<C>(g), Column<C>(buffer), lr.data_ptr<double>(), params});
  });
}

void CudaBackend::adam_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
                            const Tensor& max_v, const Tensor& lr, const Tensor& step,
                            const AdamParams& params) {
  visit_float_compute(p.dtype(), "adam_step", [&]<class C>() {
    Tensor scratch = Tensor::empty({sizeof(AdamRule<C>)}, {.dtype = u8, .device = p.device()});
    auto* rule = static_cast<AdamRule<C>*>(scratch.data_ptr());
    for_each(device_, 1,
             MakeAdamRule<C>{lr.data_ptr<double>(), step.data_ptr<double>(), params, rule});
    for_each(device_, p.numel(),
             AdamStep<C>{Column<C>(p), Column<C>(g), Column<C>(m), Column<C>(v), Column<C>(max_v),
                         rule});
  });
}

}  // namespace rondo::cuda
