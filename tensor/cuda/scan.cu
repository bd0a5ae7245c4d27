// Cumulative sums, products and extremes along one dimension: a group processes as many elements of
// a line at a time as it has threads. It joins the elements up to each one, and then all earlier
// elements with them. Floats are summed in double, as in tensor/cpu/scan.cpp. The places of the
// true elements of a mask follow from its cumulative sum.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/lines.cuh"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

template <class C>
struct SumOrProduct {
  using State = std::conditional_t<std::is_same_v<C, std::int64_t>, unsigned long long, double>;
  bool product;

  RONDO_HD State nothing() const { return product ? State(1) : State(0); }
  RONDO_HD State of(C x, std::int64_t) const { return static_cast<State>(x); }
  RONDO_HD State operator()(State before, State here) const {
    return product ? before * here : before + here;
  }
  RONDO_HD C result(State state) const { return static_cast<C>(state); }
};

/// The place of the largest (smallest) element so far: of equal ones the last, of NaNs the last.
template <class C>
struct ExtremePlace {
  struct State {
    C value;
    std::int64_t place;  // -1: of no element
  };
  bool largest;

  RONDO_HD State nothing() const { return {C(0), -1}; }
  RONDO_HD State of(C x, std::int64_t i) const { return {x, i}; }
  RONDO_HD State operator()(State before, State here) const {
    if (before.place < 0 || here.place < 0) return here.place < 0 ? before : here;
    const bool beats = largest ? here.value >= before.value : here.value <= before.value;
    return beats || here.value != here.value ? here : before;
  }
  RONDO_HD std::int64_t result(State state) const { return state.place; }
};

template <class C, class Rule>
struct Scan {
  Lines<2> lines;  // x, y
  std::int64_t length;
  bool reverse;
  Rule rule;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    auto before = rule.nothing();
    for (std::int64_t first = 0; first < length; first += group.size()) {
      const std::int64_t i = first + group.thread(), place = reverse ? length - 1 - i : i;
      auto value = rule.nothing(), total = value;
      if (i < length)
        value = rule.of(load<C>(lines.starts.dtypes[0], at.at[0] + place * lines.steps[0]), place);
      value = group.scan(value, total, rule);
      if (i < length)
        store(lines.starts.dtypes[1], at.at[1] + place * lines.steps[1],
              rule.result(rule(before, value)));
      before = rule(before, total);
    }
  }
};

/// Joins functions s -> factor s + term.
struct Linear {
  struct State {
    double factor, term;
  };
  RONDO_HD State nothing() const { return {1, 0}; }
  RONDO_HD State operator()(State before, State here) const {
    return {before.factor * here.factor, before.term * here.factor + here.term};
  }
};

/// s[j] = dy[j] + x[j + 1] s[j + 1], in f64.
struct SumsFromTheEnd {
  Lines<3> lines;  // dy, x, s
  std::int64_t length;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    const auto read = [&](std::size_t k, std::int64_t j) {
      return load<double>(lines.starts.dtypes[k], at.at[k] + j * lines.steps[k]);
    };
    const Linear linear;
    auto after = linear.nothing();
    for (std::int64_t first = 0; first < length; first += group.size()) {
      const std::int64_t j = length - 1 - first - group.thread();
      auto here = linear.nothing(), total = here;
      if (j >= 0) here = {j + 1 < length ? read(1, j + 1) : 1, read(0, j)};
      here = group.scan(here, total, linear);
      if (first > 0) {  // nothing comes after the last element, and 0 times inf is NaN
        here = linear(after, here);
        total = linear(after, total);
      }
      if (j >= 0) *reinterpret_cast<double*>(at.at[2] + j * lines.steps[2]) = here.term;
      after = total;
    }
  }
};

/// dx[j] = x[0] … x[j - 1] s[j].
struct ProductsBefore {
  Lines<3> lines;  // x, s, dx
  std::int64_t length;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    const SumOrProduct<double> product{true};
    double before = 1;
    for (std::int64_t first = 0; first < length; first += group.size()) {
      const std::int64_t j = first + group.thread();
      double total = 1;
      const double factor = j > 0 && j < length ? load<double>(lines.starts.dtypes[0],
                                                               at.at[0] + (j - 1) * lines.steps[0])
                                                : 1;
      const double here = before * group.scan(factor, total, product);
      if (j < length)
        store(lines.starts.dtypes[2], at.at[2] + j * lines.steps[2],
              here * *reinterpret_cast<const double*>(at.at[1] + j * lines.steps[1]));
      before *= total;
    }
  }
};

struct WritePlaces {
  const std::uint8_t* is_true;
  const std::int64_t* count;  // of the true elements up to each one
  std::int64_t* places;
  RONDO_HD void operator()(std::int64_t i) const {
    if (is_true[i] != 0) places[count[i] - 1] = i;
  }
};

}  // namespace

void CudaBackend::do_cumprod_backward(const Tensor& dy, const Tensor& x, std::int64_t dim,
                                      const Tensor& dx) {
  const Tensor sums = Tensor::empty(x.shape(), {.dtype = f64, .device = x.device()});
  const std::int64_t n = size_along(x, dim);
  const Lines<3> to_sums(dim, {&dy, &x, &sums}), to_dx(dim, {&x, &sums, &dx});
  for_rows(device_, to_sums.count, n, SumsFromTheEnd{to_sums, n});
  for_rows(device_, to_dx.count, n, ProductsBefore{to_dx, n});
}

void CudaBackend::do_true_places(const Tensor& mask, const Tensor& y) {
  const std::int64_t n = mask.numel();
  if (n == 0 || y.numel() == 0) return;
  const TensorOptions options{.dtype = i64, .device = mask.device()};
  const Tensor count = Tensor::empty({n}, options);
  do_copy(mask.as_view({n}, {1}, mask.storage_offset()), count);
  do_scan(ScanOp::sum, count, 0, false, count);
  const Tensor out = dense_output(y, MemoryFormat::contiguous);
  for_each(device_, n,
           WritePlaces{reinterpret_cast<const std::uint8_t*>(mask.data_ptr<bool>()),
                       count.data_ptr<std::int64_t>(), out.data_ptr<std::int64_t>()});
  if (!out.is_same(y)) do_copy(out, y);
}

void CudaBackend::do_scan(ScanOp op, const Tensor& x, std::int64_t dim, bool reverse,
                          const Tensor& y) {
  const Lines<2> lines(dim, {&x, &y});
  const std::int64_t n = size_along(x, dim);
  const auto run = [&]<class C, class Rule>(Rule rule) {
    for_rows(device_, lines.count, n, Scan<C, Rule>{lines, n, reverse, rule});
  };
  if (op == ScanOp::max || op == ScanOp::min)
    return visit_compute_type(x.dtype(), [&]<class C>() {
      run.template operator()<C>(ExtremePlace<C>{op == ScanOp::max});
    });
  const bool product = op == ScanOp::prod;
  if (is_floating(x.dtype())) {
    run.template operator()<double>(SumOrProduct<double>{product});
  } else {
    run.template operator()<std::int64_t>(SumOrProduct<std::int64_t>{product});
  }
}

}  // namespace rondo::cuda
