#include "tensor/cpu/reference.h"

#include "tensor/cpu/strided.h"
#include "tensor/functors.h"

namespace rondo::cpu::reference {
namespace {

/// x(i, j, …) addressed by strides.
template <class T>
class View {
 public:
  explicit View(const Tensor& x) : data_(x.data_ptr<T>()), strides_(x.strides()) {}
  template <class... Index>
  T& operator()(Index... index) const {
    std::int64_t offset = 0, d = 0;
    ((offset += index * strides_[d++]), ...);
    return data_[offset];
  }

 private:
  T* data_;
  Dims strides_;
};

/// Calls f(p, q, r, s, h, w) for each output pixel (p, q) and each tap (r, s) whose input pixel (h,
/// w) is inside the image.
template <class F>
void for_each_tap(const Dims& x, const Dims& w, const Dims& y, const Conv2dParams& o, F f) {
  for (std::int64_t p = 0; p < y[2]; ++p) {
    for (std::int64_t q = 0; q < y[3]; ++q) {
      for (std::int64_t r = 0; r < w[2]; ++r) {
        for (std::int64_t s = 0; s < w[3]; ++s) {
          std::int64_t h = p * o.stride_h + r * o.dilation_h - o.pad_h;
          std::int64_t v = q * o.stride_w + s * o.dilation_w - o.pad_w;
          if (h >= 0 && h < x[2] && v >= 0 && v < x[3]) f(p, q, r, s, h, v);
        }
      }
    }
  }
}

/// sum += a b; integers wrap around.
template <class T>
void add_product(T& sum, T a, T b) {
  sum = functors::plus(sum, functors::times(a, b));
}

/// Calls f<T>() for the dtypes that these loops support.
template <class F>
void visit(DType dtype, F f) {
  switch (dtype) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::i64:
      return f.template operator()<std::int64_t>();
    case DType::i32:
      return f.template operator()<std::int32_t>();
    default:
      detail::fail<DTypeError>(
          {"the CPU does not support dtype ", dtype, " in matrix products and convolutions"});
  }
}

}  // namespace

void matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y) {
  visit(y.dtype(), [&]<class T>() {
    View<T> va(a), vc(c), vy(y);
    std::int64_t rows = y.size(1), columns = y.size(2), depth = a.size(2);
    std::vector<T> start(static_cast<std::size_t>(columns), T(0));
    if (bias.defined()) {
      for (std::int64_t j = 0; j < columns; ++j)
        start[static_cast<std::size_t>(j)] = View<T>(bias)(j);
    }
    std::int64_t work = y.numel() * std::max<std::int64_t>(depth, 1);
    parallel_for(y.size(0) * rows, work, [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> row(static_cast<std::size_t>(columns));
      for (std::int64_t br = begin; br < end; ++br) {
        std::int64_t b = br / rows, i = br % rows;
        row = start;
        for (std::int64_t k = 0; k < depth; ++k) {
          T left = va(b, i, k);
          for (std::int64_t j = 0; j < columns; ++j)
            add_product(row[static_cast<std::size_t>(j)], left, vc(b, k, j));
        }
        for (std::int64_t j = 0; j < columns; ++j) vy(b, i, j) = row[static_cast<std::size_t>(j)];
      }
    });
  });
}

void conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
            const Conv2dParams& o) {
  visit(y.dtype(), [&]<class T>() {
    View<T> vx(x), vw(w), vy(y);
    std::int64_t k_group = w.size(0) / o.groups, c_group = w.size(1);
    parallel_for(y.size(0) * y.size(1), y.numel() * w.numel(), [&](auto begin, auto end) {
      for (std::int64_t nk = begin; nk < end; ++nk) {
        std::int64_t n = nk / w.size(0), k = nk % w.size(0), c0 = k / k_group * c_group;
        for (std::int64_t p = 0; p < y.size(2); ++p) {
          for (std::int64_t q = 0; q < y.size(3); ++q) {
            vy(n, k, p, q) = bias.defined() ? View<T>(bias)(k) : T(0);
          }
        }
        for_each_tap(x.shape(), w.shape(), y.shape(), o,
                     [&](auto p, auto q, auto r, auto s, auto h, auto v) {
                       for (std::int64_t c = 0; c < c_group; ++c)
                         vy(n, k, p, q) += vw(k, c, r, s) * vx(n, c0 + c, h, v);
                     });
      }
    });
  });
}

void conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                           const Conv2dParams& o) {
  backend(dx).fill(dx, 0);
  visit(dx.dtype(), [&]<class T>() {
    View<T> vdy(dy), vw(w), vdx(dx);
    std::int64_t k_group = w.size(0) / o.groups, c_group = w.size(1);
    parallel_for(dx.size(0), dy.numel() * w.numel(), [&](auto begin, auto end) {
      for (std::int64_t n = begin; n < end; ++n) {
        for (std::int64_t k = 0; k < w.size(0); ++k) {
          std::int64_t c0 = k / k_group * c_group;
          for_each_tap(dx.shape(), w.shape(), dy.shape(), o,
                       [&](auto p, auto q, auto r, auto s, auto h, auto v) {
                         for (std::int64_t c = 0; c < c_group; ++c)
                           vdx(n, c0 + c, h, v) += vw(k, c, r, s) * vdy(n, k, p, q);
                       });
        }
      }
    });
  });
}

void conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                            const Tensor& dbias, const Conv2dParams& o) {
  backend(dw).fill(dw, 0);
  if (dbias.defined()) backend(dbias).fill(dbias, 0);
  visit(dw.dtype(), [&]<class T>() {
    View<T> vdy(dy), vx(x), vdw(dw);
    std::int64_t k_group = dw.size(0) / o.groups, c_group = dw.size(1);
    parallel_for(dw.size(0), dy.numel() * dw.numel(), [&](auto begin, auto end) {
      for (std::int64_t k = begin; k < end; ++k) {
        std::int64_t c0 = k / k_group * c_group;
        for (std::int64_t n = 0; n < x.size(0); ++n) {
          for_each_tap(x.shape(), dw.shape(), dy.shape(), o,
                       [&](auto p, auto q, auto r, auto s, auto h, auto v) {
                         for (std::int64_t c = 0; c < c_group; ++c)
                           vdw(k, c, r, s) += vdy(n, k, p, q) * vx(n, c0 + c, h, v);
                       });
          if (!dbias.defined()) continue;
          for (std::int64_t p = 0; p < dy.size(2); ++p) {
            for (std::int64_t q = 0; q < dy.size(3); ++q) (View<T>(dbias))(k) += vdy(n, k, p, q);
          }
        }
      }
    });
  });
}

}  // namespace rondo::cpu::reference
