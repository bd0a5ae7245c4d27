#include "tensor/tensor.h"

#include "tensor/backend.h"
#include "tensor/record_function.h"

namespace rondo {

std::int64_t bytes_of(const Dims& sizes, DType dtype) {
  std::int64_t bytes = 0;
  require<ShapeError>(!__builtin_mul_overflow(numel_of(sizes), size_of(dtype), &bytes), "shape ",
                      sizes, " of ", dtype, " has more than 2^63 bytes");
  return bytes;
}

std::int64_t Tensor::axis(std::int64_t dim, const char* what) const {
  require<ShapeError>(this->dim() > 0, what, ": a 0-dim tensor has no dimension ", dim);
  return wrap_dim(dim, this->dim(), what);
}

namespace {

/// The deleter of an undefined tensor that knows why it is undefined. So the reason needs no room
/// in other tensors.
struct WhyUndefined {
  std::string reason;
  void operator()(TensorImpl*) const {}
};

}  // namespace

Tensor Tensor::undefined(std::string reason) {
  return Tensor(std::shared_ptr<TensorImpl>(nullptr, WhyUndefined{std::move(reason)}));
}

void Tensor::fail_undefined(std::string_view op, std::string_view what) const {
  const auto* why = std::get_deleter<WhyUndefined>(impl_);
  const std::string_view called = OpName::called(""), name = called.empty() ? op : called;
  const bool is_known = !what.empty();  // else no op has said which operand it is
  const std::string inner = is_known && name != op ? concat(op, ": ") : "";
  const std::string fact =
      is_known ? concat(inner, what, " is undefined") : "use of an undefined tensor";
  throw Error(concat(name, name.empty() ? "" : ": ", fact,
                     why != nullptr ? ": " + why->reason
                                    : "; assign a tensor to it first (a gradient is "
                                      "undefined until backward has run)"));
}

Tensor Tensor::over(StoragePtr storage, std::int64_t offset, const Dims& sizes, const Dims& strides,
                    DType dtype) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::move(storage);
  impl->offset = offset;
  impl->sizes = sizes;
  impl->strides = strides;
  impl->dtype = dtype;
  impl->version = std::make_shared<std::atomic<std::uint64_t>>(0);
  return Tensor(std::move(impl));
}

// Not in the header: each temporary calls it, and most of rondo's code consists of temporaries.
Tensor::~Tensor() = default;

Tensor Tensor::empty(const Dims& sizes, TensorOptions options) {
  const DType dtype = options.dtype.value_or(f32);
  auto bytes = static_cast<std::size_t>(bytes_of(sizes, dtype));
  auto storage = std::make_shared<Storage>(bytes, allocator_of(options.device));
  return over(std::move(storage), 0, sizes, strides_of(sizes, options.format), dtype);
}

Tensor Tensor::empty_like(const Tensor& x) {
  TensorOptions options = x.options();
  options.format = x.suggested_format();
  return empty(x.shape(), options);
}

Tensor Tensor::as_view(const Dims& sizes, const Dims& strides, std::int64_t offset) const {
  auto view = std::make_shared<TensorImpl>();
  view->storage = impl().storage;
  view->offset = offset;
  view->sizes = sizes;
  view->strides = strides;
  view->dtype = impl().dtype;
  view->version = impl().version;
  return Tensor(std::move(view));
}

Tensor Tensor::broadcast_view(const Dims& to) const {
  return as_view(to, broadcast_strides(shape(), strides(), to), storage_offset());
}

Tensor Tensor::alias() const {
  const TensorImpl& self = impl("alias");
  return as_view(self.sizes, self.strides, self.offset);
}

namespace {

/// x's elements as T in row-major order, written to `to` (host memory).
template <class T>
void read_out(const Tensor& x, T* to) {
  if (x.numel() == 0) return;
  Tensor host = x;
  if (!x.device().is_cpu()) {
    host = Tensor::empty(x.shape(), {.dtype = x.dtype()});
    backend(x).copy(x, host);
  }
  auto bytes = static_cast<std::size_t>(x.numel()) * sizeof(T);
  auto target = std::make_shared<Storage>(to, bytes, Device::cpu(), nullptr);
  backend(host).copy(host, Tensor::over(target, 0, x.shape(), strides_of(x.shape()), dtype_of<T>));
}

}  // namespace

Scalar Tensor::item_scalar() const {
  impl("item");
  require<ShapeError>(numel() == 1, "item: the tensor has shape ", shape(), ", not one element");
  if (is_floating(dtype())) {
    double value = 0;
    read_out(*this, &value);
    return value;
  }
  std::int64_t value = 0;
  read_out(*this, &value);
  return dtype() == DType::boolean ? Scalar(value != 0) : Scalar(value);
}

double Tensor::item() const {
  const Scalar value = item_scalar();
  value.check_exact(DType::f64, "item: use item<std::int64_t>()");
  return value.to<double>();
}

namespace {

/// The elements, each checked before its conversion to T; read as W, which holds all values of x's
/// dtype.
template <class T, class W, class Check>
std::vector<T> checked_vector(const Tensor& x, Check check) {
  std::vector<W> wide(static_cast<std::size_t>(x.numel()));
  read_out(x, wide.data());
  std::vector<T> out;
  out.reserve(wide.size());
  for (const W value : wide) {
    check(Scalar(value));
    out.push_back(Scalar(value).to<T>());
  }
  return out;
}

}  // namespace

template <class T>
std::vector<T> Tensor::to_vector() const {
  impl("to_vector");
  if constexpr (std::is_integral_v<T>) {
    const auto no_more = [](const Scalar&) {};  // Scalar::to checks enough
    if (is_floating(dtype())) return checked_vector<T, double>(*this, no_more);
    if (dtype() != dtype_of<T>) return checked_vector<T, std::int64_t>(*this, no_more);
  }
  std::vector<T> out(static_cast<std::size_t>(numel()));
  read_out(*this, out.data());
  return out;
}

std::vector<float> Tensor::to_vector() const {
  impl("to_vector");
  if (dtype() != DType::i64 && dtype() != DType::i32) return to_vector<float>();
  return checked_vector<float, std::int64_t>(*this, [](const Scalar& value) {
    value.check_exact(DType::f32, "to_vector: use to_vector<std::int64_t>()");
  });
}

template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<std::int32_t> Tensor::to_vector<std::int32_t>() const;
template std::vector<std::uint8_t> Tensor::to_vector<std::uint8_t>() const;
template std::vector<std::int8_t> Tensor::to_vector<std::int8_t>() const;
template std::vector<BFloat16> Tensor::to_vector<BFloat16>() const;
template std::vector<Half> Tensor::to_vector<Half>() const;

}  // namespace rondo
