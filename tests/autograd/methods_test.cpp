// Operators and methods: each is the function of the same name. Values are PyTorch's.

#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scan.h"
#include "autograd/ops/search.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/statistics.h"
#include "autograd/ops/subscript.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using test::all_close;
using test::identical;
using test::leaf;
using Values = std::vector<double>;
Values values(const Tensor& x) { return x.to_vector<double>(); }

TEST(Operators, ComparisonsAreElementByElement) {
  const Tensor a = tensor<double>({1, 2, 3}), b = tensor<double>({3, 2, 1});
  EXPECT_EQ(values(a == b), (Values{0, 1, 0}));
  EXPECT_EQ(values(a != b), (Values{1, 0, 1}));
  EXPECT_EQ(values(a < b), (Values{1, 0, 0}));
  EXPECT_EQ(values(a <= b), (Values{1, 1, 0}));
  EXPECT_EQ(values(a > b), (Values{0, 0, 1}));
  EXPECT_EQ(values(a >= b), (Values{0, 1, 1}));
  EXPECT_EQ(values(a == 2), (Values{0, 1, 0}));
  EXPECT_EQ(values(a != 2.0), (Values{1, 0, 1}));
  EXPECT_EQ(values(a < 2), (Values{1, 0, 0}));
  EXPECT_EQ(values(a <= 2), (Values{1, 1, 0}));
  EXPECT_EQ(values(a > 2), (Values{0, 0, 1}));
  EXPECT_EQ(values(a >= 2), (Values{0, 1, 1}));
  EXPECT_EQ(values(2 == a), (Values{0, 1, 0}));
  EXPECT_EQ(values(2 != a), (Values{1, 0, 1}));
  EXPECT_EQ(values(2 < a), (Values{0, 0, 1}));
  EXPECT_EQ(values(2 <= a), (Values{0, 1, 1}));
  EXPECT_EQ(values(2 > a), (Values{1, 0, 0}));
  EXPECT_EQ(values(2 >= a), (Values{1, 1, 0}));
  EXPECT_EQ((a == b).dtype(), boolean);
  EXPECT_TRUE((a == a).all().item<bool>());
  EXPECT_FALSE((a > 5).any().item<bool>());
}

TEST(Operators, CompoundAssignmentIsInPlaceAndRecorded) {
  const Tensor a = leaf({1, 2, 3, 4}), b = leaf({2, -4});
  Tensor y = a.reshape({2, 2}) * 1.0;
  const Tensor handle = y;
  y /= b;
  y -= b;
  y *= a.reshape({2, 2});
  y += b;
  y -= 1;
  y /= 2;
  y *= 3;
  y += 0.5;
  EXPECT_TRUE(handle.is_same(y));
  y.sum().backward();
  EXPECT_EQ(values(y), (Values{-0.25, 3.5, -0.25, 11}));
  EXPECT_EQ(values(a.grad()), (Values{-1.5, 4.5, 1.5, 3}));
  EXPECT_EQ(values(b.grad()), (Values{-6.75, -7.875}));
}

TEST(Operators, CompoundAssignmentThroughARow) {
  const Tensor w = leaf({5}), rows = ones({2, 2}, {.dtype = f64});
  rows[0] += w;
  rows[1] /= 4;
  rows.sum().backward();
  EXPECT_EQ(values(rows), (Values{6, 6, 0.25, 0.25}));
  EXPECT_EQ(values(w.grad()), (Values{2}));
}

TEST(Operators, MasksCombine) {
  const Tensor x = tensor<double>({-1, 0, 1, 2}), small = x < 2;
  EXPECT_EQ(values(x[~small]), (Values{2}));
  EXPECT_EQ(values(x[small & (x > -1)]), (Values{0, 1}));
  EXPECT_EQ(values(x[(x < 0) | (x > 1)]), (Values{-1, 2}));
  EXPECT_EQ(values(small ^ (x > 0)), (Values{1, 1, 0, 1}));
  Tensor y = x.clone();
  y.add_(1).mul_(2).sub_(1).div_(2);
  EXPECT_EQ(values(y), (Values{-0.5, 0.5, 1.5, 2.5}));
}

TEST(Operators, RemainderIsThatOfPython) {
  const Tensor x = tensor<std::int64_t>({-3, 5});
  EXPECT_EQ(values(x % 2), (Values{1, 1}));
  EXPECT_EQ(values(x % tensor<std::int64_t>({2, -3})), (Values{1, -1}));
  EXPECT_EQ(values(floor_divide(x, 2)), (Values{-2, 2}));
  EXPECT_EQ(values(tensor<double>({-0.5}) % 2), (Values{1.5}));
  EXPECT_EQ((x % 2).dtype(), i64);
  EXPECT_ERROR(x % 0, Error, "remainder");
}

TEST(Methods, AreTheFunctions) {
  const Tensor x = tensor<double>({3, 1, 2, 0, 5, 4}, {2, 3});
  const Tensor index = tensor<std::int64_t>({1, 0}, {2, 1});
  EXPECT_EQ(values(x.amax({1})), (Values{3, 5}));
  EXPECT_EQ(values(x.amin({0}, true)), (Values{0, 1, 2}));
  EXPECT_EQ(values(x.prod({1})), (Values{6, 0}));
  EXPECT_EQ(values(x.all({1})), (Values{1, 0}));
  EXPECT_EQ(values(x.any({0})), (Values{1, 1, 1}));
  EXPECT_EQ(values(x.max(1).indices), (Values{0, 1}));
  EXPECT_EQ(values(x.min(1).values), (Values{1, 0}));
  EXPECT_EQ(values(x.sort().values), (Values{1, 2, 3, 0, 4, 5}));
  EXPECT_EQ(values(x.topk(1).values), (Values{3, 5}));
  EXPECT_EQ(values(x.argsort()[0]), (Values{1, 2, 0}));
  EXPECT_EQ(values(x.median()), (Values{2}));
  EXPECT_EQ(values(x.cumprod(1)[0]), (Values{3, 3, 6}));
  EXPECT_EQ(values(x.cummax(1).values[1]), (Values{0, 5, 5}));
  EXPECT_EQ(values(x.cummin(1).values[0]), (Values{3, 1, 1}));
  EXPECT_DOUBLE_EQ(x.logcumsumexp(1)[0][1].item(), std::log(std::exp(3) + std::exp(1)));
  EXPECT_EQ(values(x.kthvalue(2).values), (Values{2, 4}));
  EXPECT_EQ(values(x.median(1).values), (Values{2, 4}));
  EXPECT_EQ(values(x.scatter(1, index, 9)), (Values{3, 9, 2, 9, 5, 4}));
  EXPECT_EQ(values(x.scatter_add(1, index, x.narrow(1, 0, 1))), (Values{3, 4, 2, 0, 5, 4}));
  EXPECT_EQ(values(x.index_fill(0, index[0], 1)[1]), (Values{1, 1, 1}));
  EXPECT_EQ(values(x.masked_select(x > 2)), (Values{3, 5, 4}));
  EXPECT_EQ(values((x > 3).nonzero()), (Values{1, 1, 1, 2}));
  EXPECT_EQ(values(x.diagonal(1)), (Values{1, 4}));
  EXPECT_EQ(values(x.tril()), (Values{3, 0, 0, 0, 5, 0}));
  EXPECT_EQ(values(x.triu(1)), (Values{0, 1, 2, 0, 0, 4}));
  EXPECT_EQ(values(x.roll({1}, {1})[0]), (Values{2, 3, 1}));
  EXPECT_EQ(x.movedim(0, 1).shape(), (Dims{3, 2}));
  EXPECT_EQ(x.unflatten(1, {3, 1}).shape(), (Dims{2, 3, 1}));
  EXPECT_EQ(x.tile({2}).shape(), (Dims{2, 6}));
  EXPECT_EQ(values(x[0].repeat_interleave(2)), (Values{3, 3, 1, 1, 2, 2}));
  EXPECT_EQ(x.unbind(1).size(), 3U);
  EXPECT_EQ(values(x.maximum(x * 0 + 2)[0]), (Values{3, 2, 2}));
  EXPECT_EQ(values(x.minimum(x * 0 + 2)[0]), (Values{2, 1, 2}));
  EXPECT_EQ(values(x.clamp_min(2)[0]), (Values{3, 2, 2}));
  EXPECT_EQ(values(x.clamp_max(2)[1]), (Values{0, 2, 2}));
  EXPECT_EQ(values(tensor<std::int64_t>({1, 5}).clamp_min(3)), (Values{3, 5}));
  EXPECT_EQ(values(mm(x, x.t())), (Values{14, 13, 13, 41}));
  EXPECT_EQ(values(mv(x, x[0])), (Values{14, 13}));
  EXPECT_ERROR(mm(x, x[0]), ShapeError, "mm: expected 2 and 2 dimensions, got [2, 3] and [3]");
  // In place.
  Tensor y = x.clone();
  y.clamp_(1, 4);
  EXPECT_EQ(values(y[1]), (Values{1, 4, 4}));
  y.masked_fill_(y == 4, 7);
  EXPECT_EQ(values(y[1]), (Values{1, 7, 7}));
  y.scatter_(1, index, 9).scatter_add_(1, index, ones({2, 1}, {.dtype = f64}));
  EXPECT_EQ(values(y), (Values{3, 10, 2, 10, 7, 7}));
  y.scatter_(1, index, x.narrow(1, 0, 1));
  EXPECT_EQ(values(y), (Values{3, 3, 2, 0, 7, 7}));
  y.index_fill_(0, tensor<std::int64_t>({1}), 0).index_copy_(1, index[0], x.narrow(1, 2, 1));
  EXPECT_EQ(values(y), (Values{3, 2, 2, 0, 4, 0}));
  y.index_add_(0, index[1], x.narrow(0, 1, 1));
  EXPECT_EQ(values(y), (Values{3, 7, 6, 0, 4, 0}));
}

TEST(Methods, DimensionsMoveTogether) {
  const Tensor x = arange(24).reshape({2, 3, 4}), y = arange(6).reshape({2, 3});
  EXPECT_EQ(x.movedim({0, 1}, {1, 0}).shape(), (Dims{3, 2, 4}));
  EXPECT_EQ(x.movedim({-1, 0}, {0, 1}).shape(), (Dims{4, 2, 3}));
  EXPECT_TRUE(identical(x.movedim({0, 1, 2}, {2, 0, 1}), x.permute({1, 2, 0})));
  EXPECT_TRUE(identical(x.movedim(2, 0), x.permute({2, 0, 1})));
  EXPECT_ERROR(x.movedim({0, 0}, {1, 2}), ShapeError, "movedim: a dimension occurs twice");
  EXPECT_ERROR(x.movedim({0, 1}, {1, -2}), ShapeError, "movedim: a dimension occurs twice");
  EXPECT_ERROR(x.movedim({0, 1}, {1}), ShapeError, "2 dimensions cannot be moved to 1 places");
  EXPECT_EQ(values(y.roll(1)), (Values{5, 0, 1, 2, 3, 4}));
  EXPECT_EQ(values(roll(y.t(), -2)), (Values{1, 4, 2, 5, 0, 3}));
  EXPECT_EQ(y.roll(1).shape(), (Dims{2, 3}));
  EXPECT_EQ(squeeze(y.reshape({1, 2, 1, 3})).shape(), (Dims{2, 3}));
}

TEST(Methods, ANumberToThePowerOfATensor) {
  const Tensor x = leaf({-1, 0, 2});
  const Tensor y = pow(2, x);
  EXPECT_EQ(values(y), (Values{0.5, 1, 4}));
  y.sum().backward();
  EXPECT_TRUE(all_close(x.grad(), y.detach() * std::log(2.0), 0, 1e-15));
  EXPECT_EQ(pow(2, tensor<std::int64_t>({3})).dtype(), i64);
  EXPECT_EQ(pow(0.5, tensor<std::int64_t>({3})).dtype(), f32);
  EXPECT_EQ(pow(2, x.detach().to(f16)[2]).dtype(), f16);
  EXPECT_EQ(pow(2, ones({2}, {.dtype = bf16})).dtype(), bf16);
}

TEST(Methods, OfEveryFunctionOfATensor) {
  const Tensor x = tensor<double>({3, 1, 2, 0, 5, 4}, {2, 3}), v = x[0], w = x[1];
  const Tensor i = tensor<std::int64_t>({6, 3, 1}), flag = i > 2;
  EXPECT_EQ(values(x.take(tensor<std::int64_t>({5, 0}))), (Values{4, 3}));
  EXPECT_EQ(values(x.index_put({0}, w)), (Values{0, 5, 4, 0, 5, 4}));
  EXPECT_EQ(values(v.scatter_reduce(0, tensor<std::int64_t>({0, 0, 2}), w, "sum", false)),
            (Values{5, 1, 4}));
  EXPECT_EQ(values(x.diag()), (Values{3, 5}));
  EXPECT_EQ(v.diag_embed(1).shape(), (Dims{4, 4}));
  EXPECT_EQ(x.trace().item(), 8);
  EXPECT_EQ(values(x.rot90()), (Values{2, 4, 1, 5, 3, 0}));
  EXPECT_EQ(values(x.fliplr()[0]), (Values{2, 1, 3}));
  EXPECT_EQ(values(x.flipud()[0]), (Values{0, 5, 4}));
  EXPECT_EQ(v.quantile(0.25).item(), 1.5);
  EXPECT_EQ(values(x.quantile(tensor<double>({0, 1}), 1, true)), (Values{1, 0, 3, 5}));
  EXPECT_EQ(values(tensor<double>({2, 1, 2}).unique().counts), (Values{1, 2}));
  EXPECT_EQ(values(i.bincount({}, 8)), (Values{0, 1, 0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(values(v.histc(2, 1, 3)), (Values{1, 2}));
  EXPECT_EQ(v.cov().item(), 1);
  EXPECT_EQ(v.corrcoef().item(), 1);
  EXPECT_EQ(values(x.diff(1, 0)), (Values{-3, 4, 2}));
  EXPECT_EQ(values(x.mv(v)), (Values{14, 13}));
  EXPECT_EQ(values(v.addmm(x, v.diag(), 2, 0.5)[1]), (Values{6, 4.5, 8}));
  EXPECT_EQ(x.unsqueeze(0).baddbmm(x.unsqueeze(0), v.diag().unsqueeze(0)).shape(), (Dims{1, 2, 3}));
  EXPECT_EQ(v.inner(w).item(), 13);
  EXPECT_EQ(v.kron(w).numel(), 9);
  EXPECT_EQ(values(v.cross(w)), (Values{-6, -12, 15}));
  EXPECT_EQ(values(flag.logical_xor(~flag)), (Values{1, 1, 1}));
  EXPECT_EQ(values(i.bitwise_and(3)), (Values{2, 3, 1}));
  EXPECT_EQ(values(i.bitwise_or(i.bitwise_left_shift(1))), (Values{14, 7, 3}));
  EXPECT_EQ(values(i.bitwise_xor(1).bitwise_right_shift(1)), (Values{3, 1, 0}));
  EXPECT_EQ(values(i.bitwise_not()), (Values{-7, -4, -2}));
  EXPECT_EQ(values(v.isclose(v + 0.1, 0, 0.2)), (Values{1, 1, 1}));
  EXPECT_TRUE(v.allclose(v + 1e-9));
  EXPECT_FALSE(v.equal(w));
  EXPECT_EQ(values(i.floor_divide(4).floor_divide(i)), (Values{0, 0, 0}));
  EXPECT_EQ(values(tensor<double>({3}).hypot(tensor<double>({4}))), (Values{5}));
  EXPECT_DOUBLE_EQ(v[0].logaddexp(v[0]).item(), 3 + std::log(2));
  EXPECT_EQ(values(v.copysign(-w)), (Values{-3, -1, -2}));
  EXPECT_EQ(values((v - 2).heaviside(tensor<double>({9}))), (Values{1, 0, 9}));
  EXPECT_DOUBLE_EQ(v.xlogy(v)[2].item(), 2 * std::log(2));
  EXPECT_EQ(values((v - 2).prelu(tensor<double>({0.5}))), (Values{1, -0.5, 0}));
  EXPECT_EQ(values(v.hardshrink(1.5)), (Values{3, 0, 2}));
  EXPECT_EQ(values((v / 0).nan_to_num(0, 7.0)), (Values{7, 7, 7}));
  EXPECT_EQ(values(flag.to(f64).bernoulli()), (Values{1, 1, 0}));
  EXPECT_EQ(v.multinomial(2).numel(), 2);
  EXPECT_TRUE(identical(v.polygamma(1), polygamma(1, v)));
  EXPECT_EQ(values(v.repeat_interleave(tensor<std::int64_t>({0, 2, 1}))), (Values{1, 1, 2}));
  EXPECT_EQ(v.half().dtype(), f16);
  EXPECT_EQ(v.bfloat16().dtype(), bf16);
  EXPECT_FALSE(v.is_cuda());
  EXPECT_TRUE(v.is_floating_point() && !i.is_floating_point());
}

TEST(Operators, WhatDoesNotFitIsRefused) {
  const Tensor i = tensor<std::int64_t>({6, 7}), flag = tensor<bool>({true, false});
  EXPECT_ERROR(i /= 2, DTypeError, "div_: a quotient does not fit into a tensor of i64");
  EXPECT_ERROR(i += 0.5, DTypeError, "add_: a result of f32 does not fit");
  EXPECT_ERROR(flag -= flag, DTypeError, "sub_: a bool cannot be subtracted");
  EXPECT_ERROR(leaf({1}) += 1, AutogradError, "add_: a leaf that requires a gradient");
  i -= 1;
  i *= 2;
  EXPECT_EQ(values(i), (Values{10, 12}));
}

TEST(Methods, OfReductionsAndIndexing) {
  const Tensor x = tensor<double>({1, -2, 3, 0.5, 2, -1}, {2, 3});
  EXPECT_TRUE(identical(x.sum(1), sum(x, {1})));
  EXPECT_TRUE(identical(x.sum(-1, true), sum(x, {-1}, true)));
  EXPECT_TRUE(identical(x.mean(0), mean(x, {0})));
  EXPECT_EQ(x.sum({}).dim(), 0);
  EXPECT_TRUE(identical(x.std(), rondo::std(x)));
  EXPECT_TRUE(identical(x.var(1), var(x, {1})));
  EXPECT_TRUE(identical(x.softmax(0), softmax(x, 0)));
  EXPECT_TRUE(identical(x.log_softmax(1), log_softmax(x, 1)));
  EXPECT_EQ(values(x.clamp(-1, 1)), (Values{1, -1, 1, 0.5, 1, -1}));
  EXPECT_EQ(x.argmin().item<std::int64_t>(), 1);
  EXPECT_EQ(values(x.argmin(1)), (Values{1, 2}));
  EXPECT_EQ(x.prod().item<double>(), 6);
  EXPECT_EQ(values(x.cumsum(1)), (Values{1, -1, 2, 0.5, 2.5, 1.5}));
  EXPECT_TRUE(identical(x.norm(1), norm(x, {1})));
  EXPECT_EQ(values(x.square().floor()), (Values{1, 4, 9, 0, 4, 1}));
  EXPECT_EQ(values(x.T()), (Values{1, 0.5, -2, 2, 3, -1}));
  EXPECT_EQ(x.unsqueeze(0).T().shape(), (Dims{3, 2, 1}));
  EXPECT_EQ(x.reshape({1, 2, 1, 3}).squeeze().shape(), (Dims{2, 3}));
  EXPECT_EQ(x.view_as(zeros({3, 2})).shape(), (Dims{3, 2}));
  EXPECT_TRUE(x.cpu().is_same(x));
  EXPECT_EQ(ones(3).shape(), Dims{3});
}

TEST(Methods, Repeat) {
  const Tensor x = leaf({0, 1, 2, 3, 4, 5}), m = x.reshape({2, 3});
  const Tensor y = m.repeat({2, 1, 2});
  EXPECT_EQ(y.shape(), (Dims{2, 2, 6}));
  const Values all = values(y);
  EXPECT_EQ(Values(all.begin(), all.begin() + 8), (Values{0, 1, 2, 0, 1, 2, 3, 4}));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), Values(6, 4));
  EXPECT_NE(m.repeat({1, 1}).storage(), m.storage());  // a copy
  EXPECT_EQ(m.repeat({0, 2}).shape(), (Dims{0, 6}));
  EXPECT_ERROR(m.repeat(2), ShapeError, "repeat: [2] has fewer dimensions than the tensor");
  EXPECT_ERROR(m.repeat({-1, 1}), ShapeError, "repeat: [-1, 1] has a negative number");
}

TEST(Methods, BinaryOpsAreMethodsToo) {
  const Tensor x = tensor<double>({3, -1, 2}), y = tensor<double>({2, 2, 2});
  EXPECT_EQ(values(x.add(y, 2)), (Values{7, 3, 6}));
  EXPECT_EQ(values(x.add(1).sub(y).mul(y).div(4).sub(0.5).mul(2)), (Values{1, -3, 0}));
  EXPECT_EQ(values(x.div(y)), (Values{1.5, -0.5, 1}));
  EXPECT_EQ(values(x.eq(y)), (Values{0, 0, 1}));
  EXPECT_EQ(values(x.ne(2)), (Values{1, 1, 0}));
  EXPECT_EQ(values(x.lt(y).logical_or(x.gt(2))), (Values{1, 1, 0}));
  EXPECT_EQ(values(x.le(y).logical_and(x.ge(0))), (Values{0, 0, 1}));
  EXPECT_EQ(values(x.max(y)), (Values{3, 2, 2}));
  EXPECT_EQ(values(x.min(y)), (Values{2, -1, 2}));
  EXPECT_EQ(values(x.fmod(y)), (Values{1, -1, 0}));
  EXPECT_EQ(values(x.remainder(2)), (Values{1, 1, 0}));
  EXPECT_EQ(values(x.pow(y)), (Values{9, 1, 4}));
  EXPECT_EQ(values(x.lerp(y, 0.5)), (Values{2.5, 0.5, 2}));
  EXPECT_EQ(values(x.addcmul(x, y, 0.5)), (Values{6, -2, 4}));
  EXPECT_EQ(values(x.addcdiv(x, y, -2)), (Values{0, 0, 0}));
  EXPECT_EQ(values(x.where(x > 0, 0)), (Values{3, 0, 2}));
  EXPECT_EQ(values(x.where(x > 0, y)), (Values{3, 2, 2}));
  EXPECT_EQ(values(x.clamp(y * 0, y)), (Values{2, 0, 2}));
  EXPECT_EQ(values(x.outer(y)[0]), (Values{6, 6, 6}));
  EXPECT_EQ(x.dot(y).item(), 8);
  EXPECT_EQ(values(x.nansum()), (Values{4}));
  EXPECT_EQ(x.count_nonzero().item(), 3);
  EXPECT_EQ(x.tensor_split(2)[1].numel(), 1);
  EXPECT_EQ(x.split({1, 2})[1].numel(), 2);
}

/// The kernels that f calls.
std::vector<std::string> kernels_of(const std::function<void()>& f) {
  start_recording({.nested = true});
  f();
  const std::vector<RecordedThread> threads = stop_recording();
  std::vector<std::string> names;
  for (const ProfileEvent& event : threads[0].events) names.emplace_back(event.name);
  return names;
}

TEST(Methods, WritesAtIndicesAreInPlaceWhereNothingIsRecorded) {
  const Tensor x = zeros({3, 2}, {.dtype = f64}), index = tensor<std::int64_t>({2, 0}, {1, 2}),
               rows = tensor<std::int64_t>({1}), ones_of = ones({1, 2}, {.dtype = f64});
  const std::uint64_t before = x.version();
  const std::vector<std::string> names = kernels_of([&] {
    x.masked_fill_(x == 0, 1).scatter_(0, index, 5).scatter_add_(0, index, ones_of);
    x.index_fill_(0, rows, 7).index_add_(0, rows, ones_of).index_copy_(1, rows, x.narrow(1, 0, 1));
  });
  EXPECT_EQ(values(x), (Values{1, 1, 8, 8, 6, 6}));
  EXPECT_EQ(x.version(), before + 6);
  // The source of index_copy_ is a part of x, and therefore copied.
  EXPECT_EQ(std::count(names.begin(), names.end(), "copy"), 1);
  // Under the tape, the gradient of what was overwritten is 0.
  const Tensor w = leaf({1, 2, 3, 4, 5, 6});
  Tensor y = w.reshape({3, 2}) * 1;
  y.scatter_(0, index, ones_of).index_fill_(0, rows, 0).masked_fill_(y == 2, 9);
  y.sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{1, 0, 0, 0, 0, 1}));
  const Tensor spread = zeros({1, 2}).expand({3, 2});
  EXPECT_ERROR(spread.scatter_(0, index, 1), Error, "scatter_");
  EXPECT_ERROR(spread.masked_fill_(spread == 0, 1), Error, "masked_fill_");
  EXPECT_ERROR(w.index_fill_(0, rows, 1), AutogradError, "index_fill_: a leaf that requires");
  EXPECT_ERROR(zeros({2}).masked_fill_(zeros({2, 2}) == 0, 1), ShapeError, "[2, 2]");
  const Tensor flags = tensor<bool>({true, false});
  EXPECT_EQ(values(flags.masked_fill_(flags, false)), (Values{0, 0}));
}

TEST(Methods, InPlaceResultsAreRecorded) {
  const Tensor x = leaf({4, 1, 9});
  Tensor y = x * 1;
  const Tensor handle = y;
  y.sqrt_().neg_().abs_().pow_(2).clamp_min_(2).clamp_max_(8).exp_().log_();
  EXPECT_TRUE(all_close(handle, tensor<double>({4, 2, 8}), 1e-14));
  y.lerp_(x, 0.5).addcmul_(x, x, 0.5).addcdiv_(x, x, 2).round_().floor_();
  EXPECT_EQ(values(y), (Values{14, 4, 51}));
  Tensor z = x * 1;
  z.lerp_(x * 2, 0.25).addcmul_(x, x).addcdiv_(x, x);
  z.sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{9.25, 3.25, 19.25}));
  Tensor i = tensor<std::int64_t>({-1, 4});
  i.abs_().relu_();
  EXPECT_EQ(values(i), (Values{1, 4}));
  EXPECT_ERROR(i.exp_(), DTypeError, "exp_: a result of f32 does not fit into a tensor of i64");
  EXPECT_ERROR(i.clamp_(0.5, 1.5), DTypeError, "clamp_: a result of f32 does not fit");
  Tensor s = zeros({1});
  s.sigmoid_().tanh_();
  EXPECT_FLOAT_EQ(s.item<float>(), std::tanh(0.5F));
}

TEST(Methods, UnaryOpsAreMethodsToo) {
  const Tensor x = tensor({0.25F, 0.5F, 0.75F});
  const auto same = [](const Tensor& method, const Tensor& function) {
    EXPECT_EQ(method.to_vector<float>(), function.to_vector<float>());
  };
#define RONDO_SAME(op) same(x.op(), rondo::op(x));
  RONDO_SAME(neg)
  RONDO_SAME(expm1)
  RONDO_SAME(log1p)
  RONDO_SAME(exp2)
  RONDO_SAME(log2)
  RONDO_SAME(log10)
  RONDO_SAME(reciprocal)
  RONDO_SAME(tan)
  RONDO_SAME(sinh)
  RONDO_SAME(cosh)
  RONDO_SAME(asin)
  RONDO_SAME(acos)
  RONDO_SAME(atan)
  RONDO_SAME(asinh)
  RONDO_SAME(atanh)
  RONDO_SAME(erf)
  RONDO_SAME(erfc)
  RONDO_SAME(erfinv)
  RONDO_SAME(lgamma)
  RONDO_SAME(digamma)
  RONDO_SAME(sinc)
  RONDO_SAME(deg2rad)
  RONDO_SAME(rad2deg)
  RONDO_SAME(frac)
  RONDO_SAME(trunc)
  RONDO_SAME(silu)
  RONDO_SAME(softplus)
#undef RONDO_SAME
  same((x + 1).acosh(), rondo::acosh(x + 1));
  same(x.logit(), rondo::logit(x));
  same(x.round(1), rondo::round(x, 1));
  same(x.signbit().to(f32), rondo::signbit(x).to(f32));
  same(x.isposinf().to(f32), rondo::isposinf(x).to(f32));
  same(x.isneginf().to(f32), rondo::isneginf(x).to(f32));
  same(x.isinf().to(f32), rondo::isinf(x).to(f32));
  same(x.logical_not().to(f32), rondo::logical_not(x).to(f32));
}

/// Functions that return a copy in PyTorch: writing to the result changes nothing else.
TEST(Methods, ResultsShareNoMemory) {
  const auto check = [](const char* name, const Tensor& x, const auto& function) {
    SCOPED_TRACE(name);
    const Tensor before = x.clone(), y = function(x);
    EXPECT_TRUE(y.is_contiguous() || y.numel() == 0);
    if (y.numel() == 0) return;
    y.view({-1})[0].fill_(9);  // one element only
    EXPECT_TRUE(test::identical(x, before));
    EXPECT_EQ((y == 9).sum().item<std::int64_t>(), 1);
  };
  const Tensor one = zeros({1}), number = zeros({}), column = zeros({3, 1}),
               image = zeros({1, 4, 1, 1});
  const Tensor whole = zeros({3}, {.dtype = i64});
  check("repeat", column, [](const Tensor& x) { return x.repeat({2, 4}); });
  check("repeat rows", zeros({2, 1}), [](const Tensor& x) { return x.repeat({2, 2}); });
  check("tile", column, [](const Tensor& x) { return tile(x, {1, 3}); });
  check("repeat_interleave 1", zeros({2}), [](const Tensor& x) { return repeat_interleave(x, 1); });
  check("repeat_interleave of one", column,
        [](const Tensor& x) { return repeat_interleave(x, 4, 1); });
  check("diff", zeros({3}), [](const Tensor& x) { return diff(x, {.n = 0}); });
  check("prod", zeros({1}).requires_grad_().detach(), [](const Tensor& x) { return prod(x, {0}); });
  check("logcumsumexp", one, [](const Tensor& x) { return logcumsumexp(x, 0); });
  check("logcumsumexp 0-d", number, [](const Tensor& x) { return logcumsumexp(x, 0); });
  check("cumprod 0-d", number, [](const Tensor& x) { return cumprod(x, 0); });
  check("floor", whole, [](const Tensor& x) { return floor(x); });
  check("nan_to_num", whole, [](const Tensor& x) { return nan_to_num(x); });
  check("quantile", number, [](const Tensor& x) { return quantile(x, 0.5, {.dim = 0}); });
  check("pixel_shuffle", image, [](const Tensor& x) { return pixel_shuffle(x, 1); });
  check("pixel_unshuffle", image, [](const Tensor& x) { return pixel_unshuffle(x, 1); });
  check("channel_shuffle", image, [](const Tensor& x) { return channel_shuffle(x, 4); });
  const Tensor w = ones({1}).requires_grad_();
  prod(w, {0}).mul_(2.0).backward();
  EXPECT_EQ(w.grad().item<float>(), 2);
}

template <class T>
concept SortsBy = requires(Tensor x, T value) {
  x.sort(value);
  x.argsort(value);
  sort(x, value);
  argsort(x, value);
};
static_assert(SortsBy<int> && !SortsBy<bool>, "sort(true) would sort dimension 1");

TEST(Methods, LargeBoundsAndFactors) {
  const Tensor whole = tensor<std::int64_t>({1, 2});
  EXPECT_EQ(clamp_min(whole, 1e30).to_vector<float>(), (std::vector<float>{1e30F, 1e30F}));
  EXPECT_EQ(clamp_max(whole, -1e30).to_vector<float>(), (std::vector<float>{-1e30F, -1e30F}));
  EXPECT_EQ(clamp_min(whole, 2).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 2}));
  const Tensor flags = tensor({1.0, 0.0}).to(boolean);
  EXPECT_TRUE(test::identical(add(flags, flags, -1), flags));
  EXPECT_TRUE(test::identical(flags.clone().add_(flags, -1), flags));
}

}  // namespace
}  // namespace rondo
