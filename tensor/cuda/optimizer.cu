// One optimizer step, element by element (tensor/optimizer_rule.h), over dozens of parameters in
// one kernel: most parameters of a network are so small that launching a kernel for each would take
// longer than its work. The device reads the rates, the step count and whether to do a step at all.
// The host never needs to know them, and a captured graph uses new values in each replay.

#include <vector>

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/packed.cuh"
#include "tensor/optimizer_rule.h"

namespace rondo::cuda {
namespace {

/// A tensor's elements in memory order, as C; no elements if it is undefined.
template <class C>
PackedRun<C> run_of(const Tensor& x) {
  if (!x.defined()) return {};
  require<DTypeError>(is_floating(x.dtype()) && (x.dtype() != f64 || std::is_same_v<C, double>),
                      "optimizer step: a gradient or state is ", x.dtype(),
                      ", and the parameter a smaller float");
  return {static_cast<char*>(x.data_ptr()), x.numel(), x.dtype(), is_aligned(x)};
}

/// Up to `most` parameters. Each is updated in octets of elements, the last of which may be
/// shorter; the octets are numbered consecutively. The whole batch is an argument of the kernel,
/// which is limited to 4 KB.
template <class Item, int most>
struct ItemBatch {
  Item items[most];
  std::int64_t ends[most];  // end of each item's octets in the common numbering
  int count = 0;

  static constexpr int capacity = most;
  std::int64_t size() const { return count == 0 ? 0 : ends[count - 1]; }
  void add(const Item& item, std::int64_t elements) {
    items[count] = item;
    ends[count] = size() + (elements + 7) / 8;
    ++count;
  }
  /// The item that contains octet i; changes i to the number of the octet's first element within
  /// the item.
  RONDO_HD const Item& locate(std::int64_t& i) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (i < ends[middle])
        high = middle;
      else
        low = middle + 1;
    }
    if (low > 0) i -= ends[low - 1];
    i *= 8;
    return items[low];
  }
};

/// Passes `all` to `run` in batches of one compute type.
template <class BatchOf, class Tensors, class Make, class Run>
void in_batches(std::span<const Tensors> all, Make make, Run run) {
  BatchOf batch;
  for (const Tensors& t : all) {
    if (t.p.numel() == 0) continue;
    batch.add(make(t), t.p.numel());
    if (batch.count == BatchOf::capacity) {
      run(batch);
      batch = {};
    }
  }
  if (batch.count > 0) run(batch);
}

RONDO_HD inline bool is_skipped(const float* found_inf) {
  return found_inf != nullptr && *found_inf != 0;
}
const float* pointer_to(const Tensor& found_inf) {
  return found_inf.defined() ? found_inf.data_ptr<float>() : nullptr;
}

template <class C>
struct SgdItem {
  PackedRun<C> p, g, buffer;
};

template <class C>
struct SgdStep {
  ItemBatch<SgdItem<C>, 40> batch;
  const double* rates;
  const float* found_inf;
  SgdParams params;
  RONDO_HD void operator()(std::int64_t i) const {
    if (is_skipped(found_inf)) return;
    const SgdItem<C>& t = batch.locate(i);
    const SgdRule<C> rule(rates, params);
    Octet<C> p = t.p.load(i), buffer;
    const Octet<C> g = t.g.load(i);
    const bool has_buffer = t.buffer.data != nullptr;
    if (has_buffer && !rule.first_step) buffer = t.buffer.load(i);
    for (int k = 0; k < 8; ++k) {
      if (has_buffer)
        rule(p.values[k], g.values[k], buffer.values[k]);
      else
        rule(p.values[k], g.values[k]);
    }
    if (has_buffer) t.buffer.store(i, buffer);
    t.p.store(i, p);
  }
};

template <class C>
struct AdamItem {
  PackedRun<C> p, g, m, v, max_v;
  const double* step = nullptr;
};

/// The powers of the betas, computed once for all elements of a parameter.
template <class C>
struct MakeAdamRules {
  ItemBatch<AdamItem<C>, 24> batch;
  const double* rates;
  AdamParams params;
  AdamRule<C>* rules;
  RONDO_HD void operator()(std::int64_t k) const {
    rules[k] = AdamRule<C>(rates, *batch.items[k].step, params);
  }
};

template <class C>
struct AdamStep {
  ItemBatch<AdamItem<C>, 24> batch;
  const AdamRule<C>* rules;
  const float* found_inf;
  RONDO_HD void operator()(std::int64_t i) const {
    if (is_skipped(found_inf)) return;
    const AdamItem<C>& t = batch.locate(i);
    const AdamRule<C> r = rules[&t - batch.items];
    Octet<C> p = t.p.load(i), m = t.m.load(i), v = t.v.load(i);
    const Octet<C> g = t.g.load(i);
    for (int k = 0; k < 8; ++k) r.moments(p.values[k], g.values[k], m.values[k], v.values[k]);
    t.m.store(i, m);
    t.v.store(i, v);
    if (t.max_v.data != nullptr) {
      const Octet<C> before = t.max_v.load(i);
      for (int k = 0; k < 8; ++k)
        v.values[k] = v.values[k] > before.values[k] ? v.values[k] : before.values[k];
      t.max_v.store(i, v);
    }
    for (int k = 0; k < 8; ++k) r.step(p.values[k], m.values[k], v.values[k]);
    t.p.store(i, p);
  }
};

struct UnscaleTensors {
  Tensor p;  // a gradient
};
template <class C>
struct GradientItem {
  PackedRun<C> g;
};

template <class C>
struct Unscale {
  ItemBatch<GradientItem<C>, 100> batch;
  const float* scale;
  float* found_inf;
  RONDO_HD void operator()(std::int64_t i) const {
    const GradientItem<C>& t = batch.locate(i);
    Octet<C> g = t.g.load(i);
    for (C& value : g.values) {
      // Several threads may write it, all the same. A volatile write is not a race.
      if (value - value != C(0)) *static_cast<volatile float*>(found_inf) = 1;
      value *= C(1) / static_cast<C>(*scale);
    }
    t.g.store(i, g);
  }
};

/// Calls f.operator()<C>() for each compute type C in use, with those of `all` that are computed in
/// C.
template <class Tensors, class F>
void by_compute_type(const char* op, std::span<const Tensors> all, F f) {
  std::vector<Tensors> wide, narrow;
  for (const Tensors& t : all) {
    require<DTypeError>(is_floating(t.p.dtype()), op, ": expected a floating-point dtype, got ",
                        t.p.dtype());
    (t.p.dtype() == f64 ? wide : narrow).push_back(t);
  }
  if (!wide.empty()) f.template operator()<double>(std::span<const Tensors>(wide));
  if (!narrow.empty()) f.template operator()<float>(std::span<const Tensors>(narrow));
}

}  // namespace

void CudaBackend::do_sgd_steps(std::span<const SgdTensors> all, const Tensor& rates,
                               const SgdParams& params, const Tensor& found_inf) {
  by_compute_type("sgd_step", all, [&]<class C>(std::span<const SgdTensors> some) {
    using Items = ItemBatch<SgdItem<C>, 40>;
    in_batches<Items>(
        some,
        [](const SgdTensors& t) {
          return SgdItem<C>{run_of<C>(t.p), run_of<C>(t.g), run_of<C>(t.buffer)};
        },
        [&](const Items& batch) {
          for_each(device_, batch.size(),
                   SgdStep<C>{batch, rates.data_ptr<double>(), pointer_to(found_inf), params});
        });
  });
}

void CudaBackend::do_adam_steps(std::span<const AdamTensors> all, const Tensor& rates,
                                const AdamParams& params, const Tensor& found_inf) {
  by_compute_type("adam_step", all, [&]<class C>(std::span<const AdamTensors> some) {
    using Items = ItemBatch<AdamItem<C>, 24>;
    const Tensor scratch = Tensor::empty({Items::capacity, sizeof(AdamRule<C>)},
                                         {.dtype = u8, .device = rates.device()});
    auto* rules = static_cast<AdamRule<C>*>(scratch.data_ptr());
    in_batches<Items>(
        some,
        [](const AdamTensors& t) {
          return AdamItem<C>{run_of<C>(t.p), run_of<C>(t.g),     run_of<C>(t.m),
                             run_of<C>(t.v), run_of<C>(t.max_v), t.step.data_ptr<double>()};
        },
        [&](const Items& batch) {
          for_each(device_, batch.count,
                   MakeAdamRules<C>{batch, rates.data_ptr<double>(), params, rules});
          for_each(device_, batch.size(), AdamStep<C>{batch, rules, pointer_to(found_inf)});
        });
  });
}

void CudaBackend::do_unscale(std::span<const Tensor> gradients, const Tensor& scale,
                             const Tensor& found_inf) {
  std::vector<UnscaleTensors> all;
  for (const Tensor& g : gradients) all.push_back({g});
  by_compute_type(
      "unscale", std::span<const UnscaleTensors>(all),
      [&]<class C>(std::span<const UnscaleTensors> some) {
        using Items = ItemBatch<GradientItem<C>, 100>;
        in_batches<Items>(
            some, [](const UnscaleTensors& t) { return GradientItem<C>{run_of<C>(t.p)}; },
            [&](const Items& batch) {
              for_each(device_, batch.size(),
                       Unscale<C>{batch, scale.data_ptr<float>(), found_inf.data_ptr<float>()});
            });
      });
}

void CudaBackend::do_sgd_step(const Tensor& p, const Tensor& g, const Tensor& buffer,
                              const Tensor& rates, const SgdParams& params) {
  const SgdTensors one{p, g, buffer};
  do_sgd_steps({&one, 1}, rates, params, {});
}

void CudaBackend::do_adam_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
                               const Tensor& max_v, const Tensor& rates, const Tensor& step,
                               const AdamParams& params) {
  const AdamTensors one{p, g, m, v, max_v, step};
  do_adam_steps({&one, 1}, rates, params, {});
}

}  // namespace rondo::cuda
