#pragma once
// Tensor: a handle to an n-dimensional array. Copying a Tensor copies the handle, and both handles
// refer to the same elements. `clone()` copies the elements.
//
// A tensor is a view (sizes, strides, offset) of a Storage. Tensors that view the same storage
// share a version counter, which in-place operations increment. So the tape detects that a saved
// tensor was overwritten (Note [Versions] in autograd/saved_tensor.h).
//
// This header is the bottom layer: it does not know about gradients. Differentiable operations are
// free functions in autograd/ops. The methods in the section "Differentiable" only call these
// functions. They are declared here so that `x.relu()` reads as in PyTorch, and defined in
// autograd/methods.cpp.
//
// Thread safety: different threads may use different Tensor handles, and may read the same tensor
// concurrently. The caller must order a write against every other access to the tensor.
//
// Read next: tensor/backend.h, which computes on the elements.

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/device.h"
#include "tensor/dtype.h"
#include "tensor/scalar.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

namespace rondo {

struct AutogradMeta;      // autograd/autograd_meta.h
class HookHandle;         // autograd/autograd_meta.h
class TensorIndex;        // autograd/ops/subscript.h
struct Unique;            // autograd/ops/search.h
struct ValuesAndIndices;  // autograd/ops/reduce.h

struct TensorOptions {
  std::optional<DType> dtype;  // without it f32; i64 for arange, randint and randperm of integers
  Device device = Device::cpu();
  MemoryFormat format = MemoryFormat::contiguous;
};

using VersionCounter = std::shared_ptr<std::atomic<std::uint64_t>>;

/// The object that a handle points to. Its fields are open to the layers of rondo; users call
/// Tensor's methods.
struct TensorImpl {
  StoragePtr storage;
  std::int64_t offset = 0;  // in elements
  Dims sizes, strides;
  DType dtype = DType::f32;
  VersionCounter version;
  std::shared_ptr<AutogradMeta> autograd;  // null for most tensors

  // For a view: Note [Views follow their base] in autograd/views.h.
  std::shared_ptr<TensorImpl> base;  // the tensor whose elements it shows
  std::uint64_t place_version = 0;   // the version when the view was put on the tape
  // For a constant view, taken under NoGradGuard: the tensor whose elements it shows, as a weak
  // reference.
  bool is_constant_view = false;
  std::weak_ptr<TensorImpl> constant_base;
};

/// Bytes of dense elements of this shape. Throws ShapeError if the number does not fit into
/// int64_t.
std::int64_t bytes_of(const Dims& sizes, DType dtype);

class Tensor {
 public:
  /// An undefined tensor: defined() is false.
  Tensor() = default;
  /// An undefined tensor whose use throws with `reason`.
  static Tensor undefined(std::string reason);
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  ~Tensor();
  /// Makes this handle refer to the other tensor. Only for variables: `x[0] = y` would change a
  /// temporary handle, not x; x[0].copy_(y) writes the elements.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;

  /// Uninitialised elements.
  static Tensor empty(const Dims& sizes, TensorOptions options = {});
  /// Uninitialised, with x's shape, dtype and device; dense, and channels_last if x is
  /// channels_last.
  static Tensor empty_like(const Tensor& x);
  /// A view of `storage`, with its own version counter.
  static Tensor over(StoragePtr storage, std::int64_t offset, const Dims& sizes,
                     const Dims& strides, DType dtype);

  bool defined() const { return impl_ != nullptr; }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  const Dims& shape() const { return impl("shape").sizes; }
  const Dims& strides() const { return impl("strides").strides; }
  std::int64_t dim() const { return impl("dim").sizes.size(); }
  /// Size of one dimension; a negative dim counts from the end. Throws ShapeError for a 0-dim
  /// tensor.
  std::int64_t size(std::int64_t dim) const { return impl("size").sizes[axis(dim, "size")]; }
  std::int64_t stride(std::int64_t dim) const {
    return impl("stride").strides[axis(dim, "stride")];
  }
  std::int64_t numel() const { return numel_of(impl("numel").sizes); }
  std::int64_t nbytes() const { return bytes_of(shape(), dtype()); }
  DType dtype() const { return impl("dtype").dtype; }
  Device device() const { return impl("device").storage->device(); }
  std::int64_t storage_offset() const { return impl("storage_offset").offset; }
  const StoragePtr& storage() const { return impl("storage").storage; }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_floating_point() const { return is_floating(dtype()); }
  TensorOptions options() const { return {.dtype = dtype(), .device = device()}; }

  bool is_contiguous(MemoryFormat format = MemoryFormat::contiguous) const {
    return is_dense(shape(), strides(), format);
  }
  /// channels_last if the tensor is dense only in that layout, otherwise contiguous.
  MemoryFormat suggested_format() const {
    return dim() == 4 && !is_contiguous() && is_contiguous(MemoryFormat::channels_last)
               ? MemoryFormat::channels_last
               : MemoryFormat::contiguous;
  }

  /// Address of element (0, …, 0).
  void* data_ptr() const {
    return static_cast<char*>(impl("data_ptr").storage->data()) + impl().offset * size_of(dtype());
  }
  /// The same, typed. Throws DTypeError when T is not the tensor's element type.
  template <class T>
  T* data_ptr() const {
    require<DTypeError>(dtype() == dtype_of<T>, "data_ptr<", dtype_of<T>, ">: the tensor is ",
                        dtype());
    return static_cast<T*>(data_ptr());
  }
  /// The only element, converted to T. Throws ShapeError unless there is exactly one element, and
  /// Error if an integer T cannot hold it (NaN, 300 as a byte).
  template <class T>
  T item() const {
    return item_scalar().to<T>();
  }
  /// The only element, without loss. Throws Error for an i64 that a double cannot hold.
  double item() const;
  Scalar item_scalar() const;
  /// All elements in row-major order, converted to T. Throws Error if an integer T cannot hold one
  /// of them, as item does.
  template <class T>
  std::vector<T> to_vector() const;
  /// All elements in f32. Throws Error for an integer that f32 cannot hold.
  std::vector<float> to_vector() const;

  std::uint64_t version() const { return impl("version").version->load(std::memory_order_relaxed); }
  void bump_version() const {
    impl().version->fetch_add(1, std::memory_order_relaxed);
    impl().storage->writes.fetch_add(1, std::memory_order_relaxed);
  }

  /// Another handle to the same elements with the same version counter, but not on the tape.
  Tensor alias() const;
  /// Like alias, with other sizes and strides over the same storage.
  Tensor as_view(const Dims& sizes, const Dims& strides, std::int64_t offset) const;
  /// Like alias, with sizes of 1 and missing dimensions repeated (stride 0) up to `sizes`, as
  /// kernels need their operands. `expand` is the recorded op. Throws ShapeError if the shapes do
  /// not fit.
  Tensor broadcast_view(const Dims& sizes) const;

  /// Throws Error naming `user`, or the op that runs, if the tensor is undefined.
  TensorImpl& impl(const char* user = "") const {
    if (impl_ == nullptr) [[unlikely]]
      fail_undefined(user, "");
    return *impl_;
  }
  /// Throws Error if the tensor is undefined: "add: the right operand is undefined; …".
  void require_defined(std::string_view op, std::string_view what) const {
    if (impl_ == nullptr) [[unlikely]]
      fail_undefined(op, what);
  }
  const std::shared_ptr<TensorImpl>& impl_ptr() const { return impl_; }
  /// Makes this tensor (all its handles) refer to other's elements. Module::to moves a parameter
  /// this way when an optimizer also holds it. Drops the gradient if the shape, dtype or device
  /// changes.
  void set_data(const Tensor& other) const;

  // ---- Autograd (defined in autograd/autograd_meta.cpp) ----

  bool requires_grad() const;
  /// Marks a leaf. Throws AutogradError on a non-leaf and DTypeError on an integer tensor.
  const Tensor& requires_grad_(bool value = true) const;
  bool is_leaf() const;
  /// The gradient; undefined before the first backward and after zero_grad.
  Tensor grad() const;
  void set_grad(const Tensor& grad) const;
  void zero_grad() const;
  /// Keeps .grad for this non-leaf as well. As for a leaf, it accumulates over backward calls. With
  /// create_graph the gradient is on the tape that holds this tensor: a reference cycle, as in
  /// PyTorch, until .grad is reset.
  void retain_grad() const;
  /// Calls hook(gradient) with each gradient that reaches this tensor. The hook returns nothing, or
  /// the tensor that replaces the gradient. (autograd/autograd_meta.h)
  template <class F>
  HookHandle register_hook(F hook) const;
  /// Calls hook(leaf) each time a backward has finished adding into this leaf's gradient.
  template <class F>
  HookHandle register_post_accumulate_grad_hook(F hook) const;
  /// Runs the tape from this tensor and adds to the .grad of every leaf. `gradient` may be omitted
  /// when there is one element. (autograd/engine.h)
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;
  /// The same elements, not connected to the tape.
  Tensor detach() const;

  // ---- Differentiable (defined in autograd/methods.cpp; documented in autograd/ops) ----

  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  Tensor cpu() const { return to(Device::cpu()); }
  Tensor cuda(int index = 0) const { return to(Device::cuda(index)); }
  Tensor half() const { return to(DType::f16); }
  Tensor bfloat16() const { return to(DType::bf16); }
  Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  Tensor clone() const;

  Tensor reshape(const Dims& sizes) const;
  Tensor reshape_as(const Tensor& other) const { return reshape(other.shape()); }
  Tensor view(const Dims& sizes) const;
  Tensor view_as(const Tensor& other) const { return view(other.shape()); }
  Tensor flatten(std::int64_t start_dim = 0, std::int64_t end_dim = -1) const;
  /// Removes all dimensions of size 1, or only `dim` if it has size 1.
  Tensor squeeze() const;
  Tensor squeeze(std::int64_t dim) const;
  Tensor unsqueeze(std::int64_t dim) const;
  Tensor expand(const Dims& sizes) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.shape()); }
  Tensor broadcast_to(const Dims& sizes) const { return expand(sizes); }
  Tensor permute(const Dims& order) const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  Tensor swapaxes(std::int64_t a, std::int64_t b) const { return transpose(a, b); }
  Tensor t() const;
  /// The dimensions in reverse order.
  Tensor T() const;
  /// The last two dimensions swapped.
  Tensor mT() const { return transpose(-2, -1); }
  /// Repeats the tensor repeats[d] times along each dimension d. May add dimensions in front.
  Tensor repeat(const Dims& repeats) const;
  Tensor flip(const Dims& dims) const;
  // The same without braces: x.view(2, -1) is x.view({2, -1}).
  template <std::integral... N>
  requires(sizeof...(N) > 1) Tensor reshape(N... sizes)
  const { return reshape(dims_of(sizes...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) Tensor view(N... sizes)
  const { return view(dims_of(sizes...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) Tensor expand(N... sizes)
  const { return expand(dims_of(sizes...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) Tensor permute(N... order)
  const { return permute(dims_of(order...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) Tensor repeat(N... repeats)
  const { return repeat(dims_of(repeats...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) Tensor tile(N... repeats)
  const { return tile(dims_of(repeats...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) Tensor flip(N... dims)
  const { return flip(dims_of(dims...)); }
  Tensor select(std::int64_t dim, std::int64_t index) const;
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  /// x[i] is x.select(0, i).
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  template <class T>
  requires(std::same_as<T, bool> || std::floating_point<T>)  // torch inserts a dimension; use None
      Tensor
      operator[](T) const = delete;
  /// As in Python: x[{Slice(1, 3), None, mask}] (autograd/ops/subscript.h).
  Tensor operator[](std::initializer_list<TensorIndex> where) const;
  Tensor operator[](const TensorIndex& where) const;
  Tensor index(const std::vector<TensorIndex>& where) const;
#ifdef __cpp_multidimensional_subscript  // C++23: x[1, Slice()]
  template <class... I>
  requires(sizeof...(I) > 1) Tensor operator[](const I&... where) const {
    return index(std::vector<TensorIndex>{where...});
  }
#endif
  Tensor index_select(std::int64_t dim, const Tensor& index) const;
  Tensor gather(std::int64_t dim, const Tensor& index) const;
  Tensor masked_fill(const Tensor& mask, Scalar value) const;
  Tensor scatter(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  Tensor scatter(std::int64_t dim, const Tensor& index, Scalar value) const;
  Tensor scatter_add(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  Tensor index_add(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  Tensor index_copy(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  Tensor index_fill(std::int64_t dim, const Tensor& index, Scalar value) const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor masked_scatter(const Tensor& mask, const Tensor& source) const;
  Tensor scatter_reduce(std::int64_t dim, const Tensor& index, const Tensor& src,
                        std::string_view reduce, bool include_self = true) const;
  Tensor index_put(const std::vector<TensorIndex>& where, const Tensor& value,
                   bool accumulate = false) const;
  Tensor take(const Tensor& index) const;
  Tensor take_along_dim(const Tensor& index, std::optional<std::int64_t> dim = {}) const;
  Tensor nonzero() const;
  Tensor diagonal(std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1) const;
  Tensor diag(std::int64_t offset = 0) const;
  Tensor diag_embed(std::int64_t offset = 0) const;
  Tensor trace() const;
  Tensor tril(std::int64_t diagonal = 0) const;
  Tensor triu(std::int64_t diagonal = 0) const;
  Tensor roll(const Dims& shifts, const Dims& dims = {}) const;
  Tensor rot90(std::int64_t k = 1, const Dims& dims = {0, 1}) const;
  Tensor fliplr() const;
  Tensor flipud() const;
  Tensor movedim(const Dims& source, const Dims& destination) const;
  Tensor unflatten(std::int64_t dim, const Dims& sizes) const;
  Tensor tile(const Dims& repeats) const;
  Tensor repeat_interleave(std::int64_t repeats, std::optional<std::int64_t> dim = {}) const;
  Tensor repeat_interleave(const Tensor& repeats, std::optional<std::int64_t> dim = {}) const;
  std::vector<Tensor> unbind(std::int64_t dim = 0) const;
  std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, std::int64_t dim = 0) const;
  std::vector<Tensor> split(std::initializer_list<std::int64_t> sizes, std::int64_t dim = 0) const {
    return split(std::vector<std::int64_t>(sizes), dim);
  }
  std::vector<Tensor> chunk(std::int64_t chunks, std::int64_t dim = 0) const;
  std::vector<Tensor> tensor_split(std::int64_t sections, std::int64_t dim = 0) const;
  Tensor unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const;

  Tensor sum() const;
  Tensor sum(const Dims& dims, Flag keepdim = false) const;
  Tensor mean() const;
  Tensor mean(const Dims& dims, Flag keepdim = false) const;
  Tensor var(const Dims& dims = {}, std::int64_t correction = 1, Flag keepdim = false) const;
  Tensor std(const Dims& dims = {}, std::int64_t correction = 1, Flag keepdim = false) const;
  Tensor prod(const Dims& dims = {}, Flag keepdim = false) const;
  Tensor max() const;
  Tensor min() const;
  Tensor argmax() const;
  Tensor argmin() const;
  Tensor argmax(std::int64_t dim, Flag keepdim = false) const;
  Tensor argmin(std::int64_t dim, Flag keepdim = false) const;
  Tensor amax(const Dims& dims = {}, Flag keepdim = false) const;
  Tensor amin(const Dims& dims = {}, Flag keepdim = false) const;
  Tensor all(const Dims& dims = {}, Flag keepdim = false) const;
  Tensor any(const Dims& dims = {}, Flag keepdim = false) const;
  Tensor median() const;
  ValuesAndIndices median(std::int64_t dim, Flag keepdim = false) const;
  ValuesAndIndices kthvalue(std::int64_t k, std::int64_t dim = -1, Flag keepdim = false) const;
  ValuesAndIndices max(std::int64_t dim, Flag keepdim = false) const;
  ValuesAndIndices min(std::int64_t dim, Flag keepdim = false) const;
  ValuesAndIndices sort(std::int64_t dim = -1, bool descending = false) const;
  ValuesAndIndices sort(std::same_as<bool> auto) const = delete;  // write sort(-1, true)
  ValuesAndIndices topk(std::int64_t k, std::int64_t dim = -1, bool largest = true) const;
  Tensor argsort(std::int64_t dim = -1, bool descending = false) const;
  Tensor argsort(std::same_as<bool> auto) const = delete;  // write argsort(-1, true)
  Tensor norm(const Dims& dims = {}, Flag keepdim = false) const;
  Tensor logsumexp(const Dims& dims, Flag keepdim = false) const;
  Tensor nansum(const Dims& dims = {}, Flag keepdim = false) const;
  Tensor nanmean(const Dims& dims = {}, Flag keepdim = false) const;
  Tensor count_nonzero(const Dims& dims = {}) const;
  Tensor quantile(double q, std::optional<std::int64_t> dim = {}, Flag keepdim = false) const;
  Tensor quantile(const Tensor& q, std::optional<std::int64_t> dim = {},
                  Flag keepdim = false) const;
  Unique unique() const;
  Tensor bincount(const Tensor& weights = {}, std::int64_t minlength = 0) const;
  Tensor histc(std::int64_t bins = 100, double min = 0, double max = 0) const;
  Tensor cov() const;
  Tensor corrcoef() const;
  Tensor diff(std::int64_t n = 1, std::int64_t dim = -1) const;
  Tensor cumsum(std::int64_t dim) const;
  Tensor cumprod(std::int64_t dim) const;
  Tensor logcumsumexp(std::int64_t dim) const;
  ValuesAndIndices cummax(std::int64_t dim) const;
  ValuesAndIndices cummin(std::int64_t dim) const;

  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor bmm(const Tensor& other) const;
  Tensor mv(const Tensor& other) const;
  Tensor addmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1) const;
  Tensor inner(const Tensor& other) const;
  Tensor kron(const Tensor& other) const;
  Tensor cross(const Tensor& other, std::optional<std::int64_t> dim = {}) const;
  Tensor dot(const Tensor& other) const;
  Tensor outer(const Tensor& other) const;
  Tensor add(const Tensor& other, double alpha = 1) const;
  Tensor sub(const Tensor& other, double alpha = 1) const;
  Tensor mul(const Tensor& other) const;
  Tensor div(const Tensor& other) const;
  Tensor add(Scalar other) const;
  Tensor sub(Scalar other) const;
  Tensor mul(Scalar other) const;
  Tensor div(Scalar other) const;
  Tensor eq(const Tensor& other) const;
  Tensor ne(const Tensor& other) const;
  Tensor lt(const Tensor& other) const;
  Tensor le(const Tensor& other) const;
  Tensor gt(const Tensor& other) const;
  Tensor ge(const Tensor& other) const;
  Tensor eq(Scalar other) const;
  Tensor ne(Scalar other) const;
  Tensor lt(Scalar other) const;
  Tensor le(Scalar other) const;
  Tensor gt(Scalar other) const;
  Tensor ge(Scalar other) const;
  Tensor logical_and(const Tensor& other) const;
  Tensor logical_or(const Tensor& other) const;
  Tensor logical_xor(const Tensor& other) const;
  Tensor bitwise_and(const Tensor& other) const;
  Tensor bitwise_or(const Tensor& other) const;
  Tensor bitwise_xor(const Tensor& other) const;
  Tensor bitwise_left_shift(const Tensor& other) const;
  Tensor bitwise_right_shift(const Tensor& other) const;
  Tensor bitwise_and(Scalar other) const;
  Tensor bitwise_or(Scalar other) const;
  Tensor bitwise_xor(Scalar other) const;
  Tensor bitwise_left_shift(Scalar other) const;
  Tensor bitwise_right_shift(Scalar other) const;
  Tensor bitwise_not() const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                 bool equal_nan = false) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false) const;
  bool equal(const Tensor& other) const;
  Tensor maximum(const Tensor& other) const;
  Tensor minimum(const Tensor& other) const;
  Tensor max(const Tensor& other) const { return maximum(other); }
  Tensor min(const Tensor& other) const { return minimum(other); }
  Tensor atan2(const Tensor& other) const;
  Tensor fmod(const Tensor& other) const;
  Tensor remainder(const Tensor& other) const;
  Tensor fmod(Scalar other) const;
  Tensor remainder(Scalar other) const;
  Tensor floor_divide(const Tensor& other) const;
  Tensor floor_divide(Scalar other) const;
  Tensor hypot(const Tensor& other) const;
  Tensor logaddexp(const Tensor& other) const;
  Tensor copysign(const Tensor& other) const;
  Tensor heaviside(const Tensor& values) const;
  Tensor xlogy(const Tensor& other) const;
  Tensor lerp(const Tensor& end, double weight) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, double value = 1) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, double value = 1) const;
  /// condition ? this : other.
  Tensor where(const Tensor& condition, const Tensor& other) const;
  Tensor where(const Tensor& condition, Scalar other) const;
  Tensor pow(const Tensor& exponent) const;
  Tensor pow(Scalar exponent) const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor abs() const;
  Tensor square() const;
  Tensor rsqrt() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor sign() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor round(std::int64_t decimals) const;
  Tensor clamp(Scalar low, Scalar high) const;
  Tensor clamp(Scalar low) const { return clamp_min(low); }
  Tensor clamp(const Tensor& low, const Tensor& high) const;
  Tensor clip(Scalar low, Scalar high) const { return clamp(low, high); }
  Tensor clamp_min(Scalar low) const;
  Tensor clamp_max(Scalar high) const;
  Tensor isnan() const;
  Tensor isfinite() const;
  Tensor softmax(std::int64_t dim) const;
  Tensor log_softmax(std::int64_t dim) const;
  Tensor relu() const;
  Tensor sigmoid() const;
  Tensor tanh() const;
  Tensor neg() const;
  Tensor expm1() const;
  Tensor log1p() const;
  Tensor exp2() const;
  Tensor log2() const;
  Tensor log10() const;
  Tensor reciprocal() const;
  Tensor tan() const;
  Tensor sinh() const;
  Tensor cosh() const;
  Tensor asin() const;
  Tensor acos() const;
  Tensor atan() const;
  Tensor asinh() const;
  Tensor acosh() const;
  Tensor atanh() const;
  Tensor erf() const;
  Tensor erfc() const;
  Tensor erfinv() const;
  Tensor lgamma() const;
  Tensor digamma() const;
  Tensor polygamma(std::int64_t n) const;
  Tensor logit(std::optional<double> eps = {}) const;
  Tensor sinc() const;
  Tensor deg2rad() const;
  Tensor rad2deg() const;
  Tensor trunc() const;
  Tensor frac() const;
  Tensor logical_not() const;
  Tensor isinf() const;
  Tensor isposinf() const;
  Tensor isneginf() const;
  Tensor signbit() const;
  Tensor silu() const;
  Tensor softplus() const;
  Tensor prelu(const Tensor& weight) const;
  Tensor hardshrink(double lambd = 0.5) const;
  Tensor nan_to_num(double nan = 0, std::optional<double> posinf = {},
                    std::optional<double> neginf = {}) const;
  Tensor bernoulli() const;
  Tensor multinomial(std::int64_t n, bool replacement = false) const;

  // In place; recorded on the tape. For a view, the tape of its base records it (Note [Views follow
  // their base] in autograd/views.h). Errors: on a leaf that requires a gradient, or a view of one,
  // unless under NoGradGuard; on a view that was taken under NoGradGuard, if the op is recorded; if
  // several elements of this tensor share one address, as after expand (fill_ and zero_ are
  // allowed); if the result does not fit this tensor's dtype. The operand may overlap this tensor.
  const Tensor& add_(const Tensor& other, double alpha = 1) const;
  const Tensor& sub_(const Tensor& other, double alpha = 1) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& add_(Scalar other) const;
  const Tensor& sub_(Scalar other) const;
  const Tensor& mul_(Scalar other) const;
  const Tensor& div_(Scalar other) const;
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const;
  const Tensor& clamp_(Scalar low, Scalar high) const;
  const Tensor& clamp_min_(Scalar low) const;
  const Tensor& clamp_max_(Scalar high) const;
  const Tensor& abs_() const;
  const Tensor& neg_() const;
  const Tensor& exp_() const;
  const Tensor& log_() const;
  const Tensor& sqrt_() const;
  const Tensor& relu_() const;
  const Tensor& sigmoid_() const;
  const Tensor& tanh_() const;
  const Tensor& floor_() const;
  const Tensor& round_() const;
  const Tensor& pow_(Scalar exponent) const;
  const Tensor& lerp_(const Tensor& end, double weight) const;
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, double value = 1) const;
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, double value = 1) const;
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  const Tensor& scatter_(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& scatter_(std::int64_t dim, const Tensor& index, Scalar value) const;
  const Tensor& scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& index_add_(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& index_copy_(std::int64_t dim, const Tensor& index, const Tensor& src) const;
  const Tensor& index_fill_(std::int64_t dim, const Tensor& index, Scalar value) const;
  /// x[where] = value, or += if `accumulate`.
  const Tensor& index_put_(const std::vector<TensorIndex>& where, const Tensor& value,
                           bool accumulate = false) const;
  const Tensor& index_put_(const std::vector<TensorIndex>& where, Scalar value,
                           bool accumulate = false) const;

 private:
  /// wrap_dim for a dimension that must exist.
  std::int64_t axis(std::int64_t dim, const char* what) const;
  [[noreturn, gnu::cold, gnu::noinline]] void fail_undefined(std::string_view op,
                                                             std::string_view what = {}) const;
  static Dims dims_of(std::integral auto... values) {
    return {static_cast<std::int64_t>(values)...};
  }

  std::shared_ptr<TensorImpl> impl_;
};

using Tensors = std::vector<Tensor>;

/// Prints as PyTorch does: nested brackets, aligned columns, "..." for tensors of more than 1000
/// elements, and the tensor's place on the tape: "requires_grad=True" or "grad_fn=<MulBackward>".
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
/// Sets the function with which operator<< describes a tensor's place on the tape ("" for none),
/// since this layer does not know the tape. autograd/autograd_meta.cpp calls it when the first
/// tensor is put on the tape.
void set_tape_description(std::string (*describe)(const Tensor&));

}  // namespace rondo
