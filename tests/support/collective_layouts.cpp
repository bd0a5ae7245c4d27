// check_layouts: random tensors in random layouts, compared with what plain code computes.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "support/collectives.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {

namespace {

/// How a tensor lies in memory; the last two are not dense.
enum class Lies { contiguous, channels_last, in_the_middle, permuted, sliced };

/// `values` (4 dimensions) in that layout.
Tensor laid_out(const Tensor& values, Lies how) {
  const Dims& s = values.shape();
  if (how == Lies::contiguous) return values.clone();
  if (how == Lies::channels_last) return contiguous(values, MemoryFormat::channels_last).clone();
  if (how == Lies::permuted) return transpose(contiguous(transpose(values, 0, 3)), 0, 3);
  const std::int64_t dim = how == Lies::sliced ? 3 : 0;
  Dims larger = s;
  larger[dim] += 2;
  const Tensor place = full(larger, 1, {.dtype = values.dtype()}).narrow(dim, 1, s[dim]);
  return place.copy_(values);
}

/// Moves random tensors in random layouts, and compares with `values(rank)`.
class LayoutCase {
 public:
  LayoutCase(dist::Communicator& comm, std::mt19937& random) : comm_(comm), random_(random) {
    for (int d = 0; d < 4; ++d) shape_.push_back(pick(8) == 0 ? 0 : 1 + pick(4));
    dtype_ = std::array{f32, f64, bf16, f16, i64, i32, u8, i8}[pick(8)];
    // The ranks' layouts may differ, but either all of them are dense or none is.
    const bool is_dense = pick(4) != 0;
    const auto other = static_cast<Lies>(3 + pick(2));
    for (int q = 0; q < comm.world_size(); ++q)
      lies_.push_back(is_dense ? static_cast<Lies>(pick(3)) : other);
    root_ = pick(comm.world_size());
  }

  /// One collective. A layout that it refuses must be refused on all ranks, which go on.
  void run() {
    const int n = comm_.world_size(), r = comm_.rank(), kind = pick(9);
    const auto check = [&](const Tensor& got, const Tensor& want, const char* what) {
      EXPECT_TRUE(identical(got.contiguous(), want)) << what << " of " << dtype_ << shape_;
    };
    try {
      if (kind < 3) {  // they keep the layout, which must be the same on all ranks
        const Tensor x = laid_out(values(r), lies_[0]);
        if (kind == 0) comm_.all_reduce(x);
        if (kind == 1) comm_.reduce(x, root_);
        if (kind == 2) comm_.broadcast(x, root_);
        check(x, kind == 2 ? values(root_) : kind == 0 || r == root_ ? total() : values(r), "sum");
        return;
      }
      const Tensor mine = laid_out(values(r), lies_[r]);
      Tensors parts;
      for (int q = 0; q < n; ++q) parts.push_back(room(shape_));
      if (kind == 3) {
        comm_.all_gather(parts, mine);
        for (int q = 0; q < n; ++q) check(parts[q], values(q), "all_gather of a list");
      } else if (kind == 4) {
        comm_.gather(r == root_ ? parts : Tensors(), mine, root_);
        for (int q = 0; q < n && r == root_; ++q) check(parts[q], values(q), "gather");
      } else if (kind == 5) {
        Tensors sent;
        for (int q = 0; q < n && r == root_; ++q) sent.push_back(laid_out(values(q), lies_[q]));
        // Only root would refuse: the others would wait.
        if (lies_[0] > Lies::in_the_middle) return;
        comm_.scatter(parts[0], sent, root_);
        check(parts[0], values(r), "scatter");
      } else if (kind == 6) {
        Tensors sent;
        for (int q = 0; q < n; ++q) sent.push_back(laid_out(values(r + q), lies_[q]));
        comm_.all_to_all(parts, sent);
        for (int q = 0; q < n; ++q) check(parts[q], values(q + r), "all_to_all");
      } else if (kind == 7) {
        Dims whole = shape_;
        whole[0] *= n;
        const Tensor out = room(whole);
        comm_.all_gather(out, mine);
        for (int q = 0; q < n; ++q)
          check(out.narrow(0, q * shape_[0], shape_[0]), values(q), "all_gather");
        const Tensor sum = room(shape_);
        comm_.reduce_scatter(sum, laid_out(out, lies_[r]));
        check(sum, values(r) * n, "reduce_scatter");
      } else if (n > 1 && lies_[0] <= Lies::in_the_middle) {
        const dist::Work sent = comm_.send_async(mine, (r + 1) % n);
        comm_.recv(parts[0], (r + n - 1) % n);
        sent.wait();
        check(parts[0], values((r + n - 1) % n), "message");
      }
    } catch (const ShapeError&) {
      EXPECT_GT(lies_[0], Lies::in_the_middle) << kind << " of " << dtype_ << shape_;
    }
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  Tensor values(int rank) const {
    const std::int64_t n = numel_of(shape_);
    return reshape(remainder(arange(n) + 3 * rank, 7), shape_).to(dtype_);
  }
  Tensor total() const {
    Tensor sum = values(0);
    for (int q = 1; q < comm_.world_size(); ++q) sum = sum + values(q);
    return sum;
  }
  /// Where elements arrive: a contiguous part of a larger tensor.
  Tensor room(const Dims& shape) const {
    return laid_out(full(shape, 9, {.dtype = dtype_}), Lies::in_the_middle);
  }

  dist::Communicator& comm_;
  std::mt19937& random_;
  Dims shape_;
  DType dtype_ = f32;
  std::vector<Lies> lies_;
  int root_ = 0;
};

}  // namespace

void check_layouts(dist::Communicator& comm, int cases, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < cases; ++i) LayoutCase(comm, random).run();
}

}  // namespace rondo::test
