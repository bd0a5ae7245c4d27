#include "extras/linalg/lapack.h"

#ifdef RONDO_HAS_LAPACK
#include <lapacke.h>

#include <algorithm>
#include <climits>
#endif

namespace rondo::linalg::lapack {

#ifdef RONDO_HAS_LAPACK
namespace {

static_assert(sizeof(lapack_int) == sizeof(std::int32_t));

lapack_int size_of_dim(const Tensor& x, std::int64_t dim) {
  const std::int64_t n = x.size(dim);
  require<ShapeError>(n <= INT_MAX, "linalg: LAPACK counts in 32 bits, but the tensor has shape ",
                      x.shape());
  return static_cast<lapack_int>(n);
}

/// LAPACKE_sNAME for float and LAPACKE_dNAME for double.
#define RONDO_LAPACK(name, ...)                              \
  [&] {                                                      \
    if constexpr (std::is_same_v<T, float>)                  \
      return LAPACKE_s##name(LAPACK_ROW_MAJOR, __VA_ARGS__); \
    else                                                     \
      return LAPACKE_d##name(LAPACK_ROW_MAJOR, __VA_ARGS__); \
  }()

/// Calls f<T>(i) for each matrix of a batch. f returns LAPACK's info: > 0 if there is no result.
/// info < 0 would be a wrong argument, or NaN in a matrix, which LAPACKE refuses.
template <class F>
std::int64_t for_each_matrix(const Tensor& a, const F& f) {
  std::int64_t failed = -1;
  const auto all = [&]<class T>() {
    for (std::int64_t i = 0; i < a.size(0) && failed < 0; ++i)
      if (f.template operator()<T>(i) != 0) failed = i;
  };
  if (a.dtype() == f32)
    all.template operator()<float>();
  else
    all.template operator()<double>();
  return failed;
}

/// Element (i, 0, …) of a batch.
template <class T>
T* matrix(const Tensor& x, std::int64_t i) {
  return x.data_ptr<T>() + i * (x.size(0) == 0 ? 0 : x.numel() / x.size(0));
}

}  // namespace

std::int64_t solve(const Tensor& a, const Tensor& b) {
  const lapack_int n = size_of_dim(a, 1), columns = size_of_dim(b, 2);
  if (b.numel() == 0) return -1;
  std::vector<lapack_int> pivots(static_cast<std::size_t>(n));
  return for_each_matrix(a, [&]<class T>(std::int64_t i) {
    return RONDO_LAPACK(gesv, n, columns, matrix<T>(a, i), n, pivots.data(), matrix<T>(b, i),
                        columns);
  });
}

std::int64_t lu(const Tensor& a, const Tensor& pivots) {
  const lapack_int n = size_of_dim(a, 1);
  if (a.numel() == 0) return -1;
  return for_each_matrix(a, [&]<class T>(std::int64_t i) -> lapack_int {
    // A zero pivot (info > 0) is not an error: the determinant is 0.
    return std::min<lapack_int>(
        0, RONDO_LAPACK(getrf, n, n, matrix<T>(a, i), n, matrix<std::int32_t>(pivots, i)));
  });
}

std::int64_t cholesky(const Tensor& a) {
  const lapack_int n = size_of_dim(a, 1);
  if (a.numel() == 0) return -1;
  return for_each_matrix(
      a, [&]<class T>(std::int64_t i) { return RONDO_LAPACK(potrf, 'L', n, matrix<T>(a, i), n); });
}

std::int64_t qr(const Tensor& a, const Tensor& r) {
  const lapack_int m = size_of_dim(a, 1), n = size_of_dim(a, 2);
  if (a.numel() == 0) return -1;
  return for_each_matrix(a, [&]<class T>(std::int64_t i) -> lapack_int {
    std::vector<T> factors(static_cast<std::size_t>(n));
    T* from = matrix<T>(a, i);
    if (const lapack_int info = RONDO_LAPACK(geqrf, m, n, from, n, factors.data()); info != 0)
      return info;
    std::copy(from, from + std::int64_t{n} * n, matrix<T>(r, i));
    return RONDO_LAPACK(orgqr, m, n, n, from, n, factors.data());
  });
}

std::int64_t eigh(const Tensor& a, const Tensor& values) {
  const lapack_int n = size_of_dim(a, 1);
  if (a.numel() == 0) return -1;
  return for_each_matrix(a, [&]<class T>(std::int64_t i) {
    return RONDO_LAPACK(syevd, 'V', 'L', n, matrix<T>(a, i), n, matrix<T>(values, i));
  });
}

std::int64_t svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh) {
  const lapack_int m = size_of_dim(a, 1), n = size_of_dim(a, 2), k = std::min(m, n);
  if (a.numel() == 0) return -1;
  return for_each_matrix(a, [&]<class T>(std::int64_t i) {
    return RONDO_LAPACK(gesdd, 'S', m, n, matrix<T>(a, i), n, matrix<T>(s, i), matrix<T>(u, i), k,
                        matrix<T>(vh, i), n);
  });
}

#else

namespace {
[[noreturn]] void missing() {
  throw Error(
      "linalg: this rondo was built without LAPACK; install liblapacke-dev and build again");
}
}  // namespace

std::int64_t solve(const Tensor&, const Tensor&) { missing(); }
std::int64_t lu(const Tensor&, const Tensor&) { missing(); }
std::int64_t cholesky(const Tensor&) { missing(); }
std::int64_t qr(const Tensor&, const Tensor&) { missing(); }
std::int64_t eigh(const Tensor&, const Tensor&) { missing(); }
std::int64_t svd(const Tensor&, const Tensor&, const Tensor&, const Tensor&) { missing(); }

#endif

}  // namespace rondo::linalg::lapack
