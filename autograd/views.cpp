#include "autograd/views.h"

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "tensor/creation.h"

namespace rondo {
bool is_on_tape(const TensorImpl& x) {
  return x.autograd && (x.autograd->grad_fn || x.autograd->requires_grad);
}

namespace {

Tensor base_of(const Tensor& x) { return Tensor(x.impl().base); }

/// The position of a view's elements relative to the base's first element.
struct Region {
  Dims sizes, strides;
  std::int64_t offset;  // from the base's first element

  Region(const Tensor& view, const Tensor& base)
      : sizes(view.shape()),
        strides(view.strides()),
        offset(view.storage_offset() - base.storage_offset()) {}

  Tensor of(const Tensor& base) const;
};

/// Memory for a gradient of the base, with the base's layout, so that a region of the base is the
/// same region of this memory.
struct BaseLayout {
  Dims sizes, strides;

  explicit BaseLayout(const Tensor& base) : sizes(base.shape()), strides(base.strides()) {}

  Tensor empty(TensorOptions options) const {
    std::int64_t last = 0;  // index of the last element
    for (std::int64_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
    const std::int64_t extent = numel_of(sizes) == 0 ? 0 : last + 1;
    return Tensor::empty({extent}, options).as_view(sizes, strides, 0);
  }
};

/// The node of a view whose place was renewed: dbase is dy in the view's region, and zero
/// elsewhere. A dimension with stride 0 (expand) repeats the same elements, so their gradients are
/// added.
struct RegionBackward final : Node {
  Region region;
  BaseLayout layout;
  RegionBackward(const Tensor& view, const Tensor& base) : region(view, base), layout(base) {}
  const char* name() const override { return "as_strided"; }
  Tensors backward(const Tensors& dy) override {
    Tensor dx = layout.empty(dy[0].options()).zero_();
    Region distinct = region;
    Dims repeated;
    for (std::int64_t d = 0; d < region.sizes.size(); ++d) {
      if (region.strides[d] != 0) continue;
      distinct.sizes[d] = 1;
      repeated.push_back(d);
    }
    distinct.of(dx).copy_(repeated.empty() ? dy[0] : sum(dy[0], repeated, true));
    return {dx};
  }
};

Tensor Region::of(const Tensor& base) const {
  Tensor view = base.as_view(sizes, strides, base.storage_offset() + offset);
  return record_view<RegionBackward>(base, view, view, base);
}

/// The node of an in-place op on a view: inside the view's region the gradient passes through the
/// op, outside it stays unchanged.
struct WriteBackward final : Node {
  std::shared_ptr<Node> write;  // its input 0 is the view before the write
  Region region;
  BaseLayout layout;
  WriteBackward(std::shared_ptr<Node> write, const Tensor& view, const Tensor& base)
      : write(std::move(write)), region(view, base), layout(base) {}
  const char* name() const override { return "copy_slices"; }
  Tensors backward(const Tensors& dy) override {
    Tensor dbase = layout.empty(dy[0].options()).copy_(dy[0]);
    Tensor part = region.of(dbase);
    Tensors dx = write->backward({part.clone()});
    if (!wants(0)) {
      dx[0] = Tensor();  // it would have the view's shape
      return dx;
    }
    if (dx[0].defined() && !repeats_elements(region.sizes, region.strides)) {
      part.copy_(dx[0]);
    } else {  // only fill_ may write repeated elements
      part.zero_();
    }
    dx[0] = dbase;
    return dx;
  }
  void release_saved() override { write->release_saved(); }
};

}  // namespace

void set_base(const Tensor& view, const Tensor& x) {
  TensorImpl& v = view.impl();
  const TensorImpl& of = x.impl();
  // If x is a leaf that is itself a view, the leaf is the base.
  const bool is_leaf = of.autograd && of.autograd->requires_grad;
  const auto& base = of.base && !is_leaf ? of.base : x.impl_ptr();
  v.is_constant_view = !GradMode::is_enabled() || of.is_constant_view;
  if (v.is_constant_view) {
    v.constant_base = of.is_constant_view ? of.constant_base : base;
  } else {
    v.base = base;
    v.place_version = v.version->load(std::memory_order_relaxed);
  }
}

void forget_hidden_base(const Tensor& x) {
  const TensorImpl& view = x.impl();
  const bool base_is_gone = view.is_constant_view && view.constant_base.expired();
  const bool only_x_has_base = view.base != nullptr && view.base.use_count() == 1;
  if (!base_is_gone && !only_x_has_base) return;
  // Tensors of the same memory share the counter of its version.
  if (view.version.use_count() != (view.base ? 2 : 1) || has_old_place(x)) return;
  forget_base(x);
}

bool has_old_place(const Tensor& x) {
  const TensorImpl& view = x.impl();
  if (!view.base || !is_on_tape(*view.base)) return false;
  return view.place_version != x.version() || !is_on_tape(view);
}

void require_base(const Tensor& x) {
  const TensorImpl &view = x.impl(), &base = *view.base;
  require<AutogradError>(
      view.version == base.version, "a view of shape ", view.sizes,
      " uses memory that its base no longer uses (set_data); take the view again");
  require<AutogradError>(!repeats_elements(base.sizes, base.strides), "a view of shape ",
                         view.sizes, " has a base of shape ", base.sizes, " and strides ",
                         base.strides,
                         ", which has several elements at one address; clone the base");
}

void renew_place(const Tensor& x) {
  require_base(x);
  TensorImpl& view = x.impl();
  const Tensor base = base_of(x);
  require<AutogradError>(!autograd_meta(x).requires_grad, "a leaf of shape ", x.shape(),
                         " is a view of a tensor that was modified in place; make the leaf from "
                         "a clone");
  auto node = std::make_shared<RegionBackward>(x, base);
  attach(node, {&base, 1}, {&x, 1});
  view.place_version = x.version();
}

void attach_write(const std::shared_ptr<Node>& write, const Tensor& x) {
  const Tensor base = base_of(x);
  auto node = std::make_shared<WriteBackward>(write, x, base);
  std::vector<Edge> edges = write->edges;
  edges[0] = gradient_edge(base);
  attach(node, {}, {&base, 1});
  write->edges = edges;  // for `wants`
  node->edges = std::move(edges);
  write->outputs.push_back({x.shape(), x.dtype(), x.device()});
}

}  // namespace rondo
