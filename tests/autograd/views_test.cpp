// Views and in-place ops: random programs against PyTorch (tests/golden/make_views.py), then single
// cases.

#include "autograd/views.h"

#include <sstream>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo {
namespace {

using test::leaf;
using Values = std::vector<double>;
Values numbers_of(const Tensor& x) { return x.to_vector<double>(); }

const TensorOptions f64_options{.dtype = f64};

/// The tensors after a program; make_views.py explains the codes.
Tensors run(const Tensor& program, const Tensor& w) {
  Tensors t;
  const auto base = [](std::int64_t shift) {
    return ((arange(12, f64_options) + shift) / 8.0).reshape({3, 4});
  };
  const auto code = program.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < code.size(); i += 5) {
    const std::int64_t a = code[i + 1], b = code[i + 2], c = code[i + 3], d = code[i + 4];
    const auto at = [&](std::int64_t k) { return t.at(static_cast<std::size_t>(k)); };
    switch (code[i]) {
      case 0:
        t.push_back(base(a).clone());
        break;
      case 1:
        t.push_back(base(a) * w[b]);
        break;
      case 2:
        t.push_back(at(a).narrow(b, c, d));
        break;
      case 3:
        t.push_back(at(a).transpose(b, c));
        break;
      case 4:
        t.push_back(at(a).select(b, c));
        break;
      case 5: {
        Dims sizes = at(a).shape();
        sizes.insert(0, 2);
        t.push_back(at(a).unsqueeze(0).expand(sizes));
        break;
      }
      case 6:
        t.push_back(at(a).view({-1}));
        break;
      case 7:
        at(a).mul_(w[b]);
        break;
      case 8:
        at(a).add_(at(b) * 0.5);
        break;
      case 9:
        at(a).copy_(w[b]);
        break;
      case 10:
        at(a).fill_(0.5);
        break;
      case 11:
        t.push_back(at(a) * 0.5);
        break;
      case 12:
        at(a).copy_(at(b) * 2.0);
        break;
      case 13: {
        NoGradGuard guard;
        at(a).fill_(0.25);
        break;
      }
      default:
        ADD_FAILURE() << "instruction " << code[i];
    }
  }
  return t;
}

TEST(Views, RandomProgramsAgreeWithPyTorch) {
  const test::Golden golden("views.txt");
  for (int p = 0; p < 60; ++p) {
    const std::string name = "program" + std::to_string(p);
    SCOPED_TRACE(name);
    const Tensor w = leaf({1.5, -0.75, 0.5});
    Tensor loss = w.sum();
    double k = 0;
    for (const Tensor& x : run(golden[name], w)) loss = loss + (x * x * ++k).sum();
    EXPECT_NEAR(loss.item<double>(), golden[name + ".loss"].item<double>(), 1e-9);
    const Tensor first = grad({loss}, {w}, {.create_graph = true})[0];
    EXPECT_TRUE(test::all_close(first.detach(), golden[name + ".first"], 1e-12, 1e-12));
    if (!first.requires_grad()) continue;
    Tensor second = grad({(first * first).sum()}, {w}, {.allow_unused = true})[0];
    if (!second.defined()) second = zeros_like(w);
    EXPECT_TRUE(test::all_close(second.detach(), golden[name + ".second"], 1e-12, 1e-12));
  }
}

TEST(Views, ABufferIsFilledRowByRow) {
  const Tensor w = leaf({2, 3}), rows = zeros({2, 2}, f64_options);
  rows[0].copy_(w);
  rows[1].copy_(w * w);
  EXPECT_TRUE(rows.requires_grad());
  rows.sum().backward();
  EXPECT_EQ(numbers_of(w.grad()), (Values{1 + 4, 1 + 6}));
}

TEST(Views, AViewTakenBeforeItsBaseIsOnTheTapeFollowsIt) {
  const Tensor w = leaf({2, 3}), b = ones({2}, f64_options), v = b.narrow(0, 0, 1);
  const Tensors parts = unbind(b, 0);
  EXPECT_FALSE(v.requires_grad());
  b.mul_(w);
  EXPECT_TRUE(v.requires_grad());
  EXPECT_FALSE(v.is_leaf());
  v.requires_grad_();  // it does already
  EXPECT_THROW(v.requires_grad_(false), AutogradError);
  std::ostringstream printed;
  printed << v;
  EXPECT_NE(printed.str().find("grad_fn=<AsStridedBackward>"), std::string::npos);
  v.mul_(tensor<double>({10}));
  parts[1].mul_(full({}, 5, f64_options));
  (b.sum() + v.sum() + parts[1]).backward();
  EXPECT_EQ(numbers_of(w.grad()), (Values{20, 10}));
}

TEST(Views, AViewTakenBeforeItsBaseIsALeafFollowsIt) {
  const Tensor b = tensor<double>({1, 2}), v = b[1];
  b.requires_grad_();
  (v * 3.0).backward();
  EXPECT_EQ(numbers_of(b.grad()), (Values{0, 3}));
}

TEST(Views, ARepeatedElementGetsTheSumOfItsGradients) {
  const Tensor w = leaf({2}), b = ones({1}, f64_options), v = b.expand({3});
  b.mul_(w);
  (v * tensor<double>({1, 10, 100})).sum().backward();
  EXPECT_EQ(numbers_of(w.grad()), (Values{111}));
}

TEST(Views, ABaseWithGapsInItsMemory) {
  const Tensor w = leaf({2}), m = arange(12, f64_options).reshape({3, 4});
  const Tensor middle = m.narrow(1, 1, 2).detach();  // a base of its own, strides [4, 1]
  middle[2].mul_(w);
  (middle * middle).sum().backward();
  EXPECT_EQ(numbers_of(w.grad()), (Values{2 * 2 * (81 + 100)}));
}

TEST(Views, HooksAndRetainedGradientsOfAViewThatFollows) {
  const Tensor w = leaf({2, 3}), b = ones({2}, f64_options), v = b[0];
  b.mul_(w);
  v.retain_grad();
  (v * 7.0).backward();
  EXPECT_EQ(v.grad().item<double>(), 7);
  EXPECT_EQ(numbers_of(w.grad()), (Values{7, 0}));
}

// Expected values: PyTorch 2.15.
TEST(Views, RetainedGradientsAreThoseAfterAWrite) {
  const Tensor w = leaf({2, 3});
  {  // the view is written and then used
    const Tensor b = w * 1.0, v = b[0];
    v.retain_grad();
    v.mul_(w[1]);
    (v * 7.0 + b.sum()).backward();
    EXPECT_EQ(v.grad().item<double>(), 7);
  }
  {  // only its base is used
    const Tensor b = w * 1.0, v = b[0];
    v.retain_grad();
    v.mul_(w[1]);
    b.sum().backward();
    EXPECT_FALSE(v.grad().defined());
  }
  {  // the base is written through a view
    const Tensor b = w * 1.0, v = b[0];
    b.retain_grad();
    v.mul_(w[1]);
    (b * b).sum().backward();
    EXPECT_EQ(numbers_of(b.grad()), (Values{12, 6}));
  }
  {  // the view was used before its base was written
    const Tensor b = w * 1.0, v = b[0];
    v.retain_grad();
    const Tensor before = v * 7.0;
    b.mul_(w[1]);
    (before + b.sum()).backward();
    EXPECT_EQ(v.grad().item<double>(), 7);
  }
}

TEST(Views, WritesWithoutRecordingKeepTheGradientsPath) {
  const Tensor w = leaf({2, 3}), b = w * 1.0, v = b[0];
  {
    NoGradGuard guard;
    v.fill_(7);
  }
  (v * v).backward();
  EXPECT_EQ(numbers_of(w.grad()), (Values{14, 0}));
}

TEST(Views, ALeafIsNotWrittenThroughAView) {
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(x[0].fill_(0), AutogradError,
               "fill_: a view of a leaf that requires a gradient is being modified in place");
  EXPECT_EQ(numbers_of(x), (Values{1, 2}));
}

TEST(Views, AViewTakenUnderNoGradGuardIsAConstant) {
  const Tensor w = leaf({2, 3}), b = w * 1.0;
  const Tensor v = no_grad([&] { return b[0]; });
  const Tensor of_v = v.reshape({1});
  EXPECT_FALSE(v.requires_grad());
  EXPECT_FALSE((v * 2.0).requires_grad());
  EXPECT_ERROR(v.mul_(w[0]), AutogradError, "mul_: a view of shape [] was taken under");
  EXPECT_ERROR(of_v.mul_(w[0]), AutogradError, "mul_: a view of shape [1] was taken under");
  EXPECT_ERROR(v.fill_(1), AutogradError, "fill_: a view of shape [] was taken under");
  EXPECT_EQ(v.item<double>(), 2);
  b.mul_(w);
  EXPECT_FALSE((v * 2.0).requires_grad());
  EXPECT_EQ((v * 2.0).item<double>(), 8);
}

TEST(Views, AViewOfAPlainTensorTakenUnderNoGradGuardMayBeWritten) {
  const Tensor b = zeros({2}, f64_options), v = no_grad([&] { return b[0]; });
  v.fill_(3);
  EXPECT_EQ(numbers_of(b), (Values{3, 0}));
  const Tensor x = leaf({1, 2}), first = no_grad([&] { return x[0]; });
  EXPECT_ERROR(first.fill_(3), AutogradError, "gradients would miss the write");
  no_grad([&] {
    first.fill_(3);
    return 0;
  });
  EXPECT_EQ(numbers_of(x), (Values{3, 2}));
}

TEST(Views, BelowALeafThatIsAViewTheLeafIsTheBase) {
  const Tensor w = leaf({2}), b = zeros({4}, f64_options);
  const Tensor v = b.narrow(0, 0, 2).requires_grad_(), u = v[0];
  EXPECT_ERROR(u.add_(w[0]), AutogradError, "add_: a view of a leaf that requires a gradient");
  (u * 3.0).backward();
  EXPECT_EQ(numbers_of(v.grad()), (Values{3, 0}));
}

TEST(Views, ALeafThatIsAViewDoesNotFollow) {
  const Tensor w = leaf({2, 3}), b = ones({2}, f64_options), v = b[0].requires_grad_();
  b.mul_(w);
  EXPECT_ERROR(v * 2.0, AutogradError,
               "a leaf of shape [] is a view of a tensor that was modified");
}

TEST(Views, DetachedAndReplacedMemoryDoesNotFollow) {
  const Tensor w = leaf({2, 3}), b = w * 1.0, d = b.detach();
  d[0].mul_(w[0]);
  EXPECT_TRUE(d.requires_grad());
  EXPECT_EQ(numbers_of(b), (Values{4, 3}));
  const Tensor p = tensor<double>({1, 2}), v = p[0];
  p.requires_grad_();
  p.set_data(tensor<double>({3, 4}));
  EXPECT_ERROR(v * 2.0, AutogradError, "uses memory that its base no longer uses");
}

TEST(Views, AViewOfMemoryThatItsBaseHasGivenUpIsNotWritten) {
  const Tensor w = leaf({2}), b = zeros({4}, f64_options), v = b.narrow(0, 3, 1);
  b.set_data(ones({2}, f64_options));
  EXPECT_ERROR(v.copy_(w), AutogradError, "uses memory that its base no longer uses");
  EXPECT_EQ(v.item<double>(), 0);
  const Tensor p = zeros({4}, f64_options), last = p[3];
  p.requires_grad_();
  p.set_data(p.detach().narrow(0, 0, 2));  // the same memory, but a smaller part
  EXPECT_ERROR(last * 2.0, AutogradError, "uses memory that its base no longer uses");
}

TEST(Views, ABaseThatRepeatsItsElementsIsNotFollowed) {
  const Tensor d = ones({1}, f64_options).expand({3}).detach(), v = d[0];
  EXPECT_ERROR(v.mul_(leaf({2})[0]), AutogradError, "several elements at one address");
  d.requires_grad_();
  EXPECT_ERROR(v * 2.0, AutogradError, "several elements at one address");
}

struct TwiceBackward final : Node {
  const char* name() const override { return "twice"; }
  Tensors backward(const Tensors& dy) override { return {dy[0].reshape({2}) * 2.0}; }
};

TEST(Views, WhatAnOpReturnsIsNoViewOfWhatItIsMadeFrom) {
  for (const bool inside : {false, true}) {
    const Tensor x = leaf({1, 2});
    const auto make = [&] { return (x.detach() * 2.0).reshape({2, 1}); };
    const Tensor y = record<TwiceBackward>({x}, inside ? no_grad(make) : make());
    y.mul_(tensor<double>({3}));
    y.sum().backward(Tensor());
    EXPECT_EQ(numbers_of(x.grad()), (Values{6, 6}));
  }
}

/// Ops that end with a reshape: nobody has the tensor that they reshape, so the result need not
/// follow it.
TEST(Views, WhatAComposedOpReturnsMayBeWritten) {
  const Tensor w = leaf({2, 3}), ones22 = ones({2, 2}, f64_options), ones2 = ones({2}, f64_options);
  const Tensor y = no_grad([&] { return matmul(ones22, ones2); });
  y.add_(w);  // recorded
  y.sum().backward();
  EXPECT_EQ(numbers_of(w.grad()), (Values{1, 1}));

  const Tensor k = matmul(ones22, w), doubled = k * 2.0;
  no_grad([&] {
    k.add_(1.0);
    return 0;
  });
  EXPECT_EQ(numbers_of(grad({doubled.sum()}, {k})[0]), (Values{2, 2}));
  // A view of a tensor that is written before it is given up still follows that tensor.
  Tensor b = zeros({2}, f64_options), v = b.view({2});
  b.mul_(w);
  b = Tensor();
  EXPECT_TRUE(v.requires_grad());
  // Others use the memory, too.
  const Tensor z = no_grad([&] { return matmul(ones22, ones2); }), part = z[0];
  EXPECT_ERROR(part.add_(w[0]), AutogradError, "was taken under NoGradGuard");
}

TEST(Views, ANodeMayReturnItsInput) {
  const Tensor w = leaf({1, 2}), h = w * 2.0, a = record<TwiceBackward>({h}, h);
  ((a * 1.0).sum() + (h * 10.0).sum()).backward();
  EXPECT_EQ(numbers_of(w.grad()), (Values{24, 24}));  // 2 (2 + 10)
  h.mul_(3.0);                                        // a has memory of its own
  EXPECT_EQ(numbers_of(a), (Values{2, 4}));

  const Tensor x = leaf({1, 2});
  for (int i = 0; i < 2; ++i) record<TwiceBackward>({x}, x).sum().backward();
  EXPECT_TRUE(x.is_leaf());
  EXPECT_EQ(numbers_of(x.grad()), (Values{4, 4}));

  const Tensor view = record<TwiceBackward>({h}, no_grad([&] { return h.view({2, 1}); }));
  view.mul_(5.0);
  EXPECT_EQ(numbers_of(h), (Values{6, 12}));
  EXPECT_FALSE(record_all<TwiceBackward>({h}, {h})[0].is_same(h));

  // The input may be a view, and follows its base as before.
  const Tensor u = leaf({1, 2}), b = u * 1.0, v = b.view({2, 1});
  record<TwiceBackward>({v}, v);
  b.mul_(5.0);
  v.sum().backward(Tensor());
  EXPECT_EQ(numbers_of(u.grad()), (Values{5, 5}));
}

TEST(Views, RepeatedElementsMayBeFilled) {
  const Tensor w = leaf({2}), b = w * 1.0;
  b.expand({3}).zero_();
  (b.sum() + w.sum()).backward();
  EXPECT_EQ(numbers_of(w.grad()), (Values{1}));
}

TEST(Views, AnErrorComesBeforeMemoryIsWritten) {
  const Tensor w = leaf({2, 3}), b = ones({2}, f64_options), v = b[0].requires_grad_();
  b.mul_(w);
  const Tensor x = ones({}, f64_options);
  EXPECT_ERROR(x.add_(v), AutogradError, "a leaf of shape [] is a view");
  EXPECT_EQ(x.item<double>(), 1);
}

TEST(Views, AWriteToAViewIsNotTraced) {
  const TraceMode trace;
  const Tensor w = leaf({2, 3}), b = w * 1.0;
  EXPECT_ERROR(b[0].mul_(w[1]), AutogradError, "mul_: a write to a view cannot be traced");
  EXPECT_EQ(numbers_of(b), (Values{2, 3}));
}

TEST(Views, ShortFloatsAndChannelsLast) {
  for (const DType dtype : {f32, bf16, f16}) {
    const Tensor w = full({1, 2, 1, 1}, 3, {.dtype = dtype}).requires_grad_();
    const Tensor x = contiguous(ones({2, 2, 2, 2}, {.dtype = dtype}), MemoryFormat::channels_last);
    x.narrow(0, 1, 1).mul_(w);
    x.select(1, 0).fill_(0);
    EXPECT_EQ(x.sum().item<double>(), 4 + 12);
    x.sum().backward();
    EXPECT_EQ(w.grad().to_vector<double>(), (Values{0, 4}));
  }
}

TEST(Views, AWriteThatBackwardNeedsUndoneIsNoticed) {
  const Tensor w = leaf({2, 3}), b = w * 1.0, v = b[0];
  const Tensor y = v * w[1];
  b[1].fill_(0);  // all views share one version
  EXPECT_ERROR(y.backward(), AutogradError, "was modified in place");
}

TEST(Views, ALongLoopOfWritesIsFreedWithoutRecursion) {
  const Tensor w = leaf({1}), b = zeros({4}, f64_options);
  for (int i = 0; i < 100'000; ++i) b[i % 4].add_(w[0]);
  b[1].backward();
  EXPECT_EQ(numbers_of(w.grad()), (Values{25'000}));
}

TEST(Views, NoCycleKeepsAGraphAlive) {
  std::weak_ptr<TensorImpl> kept;
  {
    const Tensor w = leaf({2, 3}), b = ones({2}, f64_options);
    const Tensor v = b[0];
    b[1].copy_(v * w[0]);       // the product saves v, and is written to its base
    b[1].copy_((b * w).sum());  // here the product saves b itself
    kept = b.impl_ptr();
  }
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace rondo
