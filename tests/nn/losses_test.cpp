// Every loss against PyTorch: value and gradient, for each reduction, in f64 and f32.

#include "nn/losses.h"

#include <gtest/gtest.h>

#include "autograd/ops/activation.h"
#include "autograd/ops/loss.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/support.h"
#include "support/test_device.h"

namespace rondo::test {
namespace {

class Losses : public ::testing::TestWithParam<DType> {
 protected:
  template <class Loss>
  void check(const std::string& name, const Loss& loss, const Tensor& x, const Tensor& y) {
    static const Golden golden("nn_losses.txt");
    DType dtype = GetParam();
    Tensor input = x.to(dtype).detach().clone().to(test_device()).requires_grad_();
    Tensor value = loss(input, (is_floating(y.dtype()) ? y.to(dtype) : y).to(test_device()));
    value.backward(fill(value.shape(), 1).to(dtype).to(test_device()));
    // Logits reach 40, and log-probabilities are differences of such numbers.
    double atol = tolerance(dtype, 12, 40);
    EXPECT_TRUE(all_close(value.detach().to(Device::cpu()), golden[name + ".loss"].to(dtype), atol,
                          tolerance(dtype)))
        << name;
    EXPECT_TRUE(all_close(input.grad().to(Device::cpu()), golden[name + ".dx"].to(dtype), atol))
        << name;
  }

  Tensor labels = tensor<std::int64_t>({0, 3, 2, 2, 1, 0});
  Tensor image_labels = tensor<std::int64_t>({0, 1, 2, 1, 1, 1, 0, 2}, {2, 2, 2});
  Tensor logits = fill({6, 4}, 0, 3), images = fill({2, 3, 2, 2}, 0, 3);
  Tensor x = fill({3, 4}, 0, 2), y = fill({3, 4}, 2, 2);
};

struct Named {
  const char* name;
  Reduction reduction;
};
constexpr Named reductions[] = {
    {".mean", Reduction::mean}, {".sum", Reduction::sum}, {".none", Reduction::none}};

TEST_P(Losses, OfClassesAgreeWithPyTorch) {
  Tensor weight = tensor<double>({0.5, 2, 1, 0.25}).to(GetParam()).to(test_device());
  for (auto [name, reduction] : reductions) {
    check(std::string("cross_entropy") + name, nn::CrossEntropyLoss({.reduction = reduction}),
          logits, labels);
    check(
        std::string("cross_entropy_all") + name,
        nn::CrossEntropyLoss(
            {.weight = weight, .ignore_index = 2, .reduction = reduction, .label_smoothing = 0.1}),
        logits, labels);
    check(std::string("cross_entropy_image") + name,
          nn::CrossEntropyLoss({.reduction = reduction, .label_smoothing = 0.2}), images,
          image_labels);
    check(std::string("nll") + name,
          nn::NLLLoss({.weight = weight, .ignore_index = 3, .reduction = reduction}),
          log_softmax(logits, 1), labels);
  }
}

TEST_P(Losses, OfNumbersAgreeWithPyTorch) {
  for (auto [name, reduction] : reductions) {
    check(std::string("mse") + name, nn::MSELoss({reduction}), x, y);
    check(std::string("l1") + name, nn::L1Loss({reduction}), x, y);
    check(std::string("smooth_l1") + name, nn::SmoothL1Loss({.reduction = reduction, .beta = 0.7}),
          x, y);
    check(std::string("bce_with_logits") + name, nn::BCEWithLogitsLoss({.reduction = reduction}),
          x * 20.0, (fill({3, 4}, 2) + 1.0) / 2.0);
  }
}

TEST_P(Losses, OfDistributionsAgreeWithPyTorch) {
  Tensor log_p = log_softmax(x, 1), q = softmax(y, 1), log_q = log_softmax(y, 1);
  q[0][1].fill_(0);  // 0 log 0 is 0
  for (auto [name, reduction] : reductions) {
    check(std::string("kl_div") + name, nn::KLDivLoss({.reduction = reduction}), log_p, q);
    check(std::string("kl_div_log") + name,
          nn::KLDivLoss({.reduction = reduction, .log_target = true}), log_p, log_q);
  }
  check("kl_div.batchmean", nn::KLDivLoss({.reduction = Reduction::batchmean}), log_p, q);
  check("kl_div_log.batchmean",
        nn::KLDivLoss({.reduction = Reduction::batchmean, .log_target = true}), log_p, log_q);
}

INSTANTIATE_TEST_SUITE_P(Floats, Losses, ::testing::Values(f64, f32),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(LossErrors, LabelOutsideTheClasses) {
  nn::CrossEntropyLoss loss;
  EXPECT_THROW(loss(zeros({2, 3}), tensor<std::int64_t>({0, 3})), ShapeError);
  EXPECT_THROW(loss(zeros({2, 3}), tensor<std::int64_t>({-1, 0})), ShapeError);
  EXPECT_THROW(loss(zeros({2, 3}), tensor<std::int64_t>({0, 1, 2})), ShapeError);
}

TEST(Losses, BatchmeanIsForKlDivOnly) {
  const Tensor x = log_softmax(randn({3, 4}), 1), y = softmax(randn({3, 4}), 1);
  EXPECT_TRUE(
      test::identical(kl_div(x, y, Reduction::batchmean), kl_div(x, y, Reduction::sum) / 3));
  const char* said = "the reduction batchmean is for kl_div only";
  EXPECT_ERROR(mse_loss(x, y, Reduction::batchmean), Error, said);
  EXPECT_ERROR(
      cross_entropy(x, tensor<std::int64_t>({0, 1, 2}), {.reduction = Reduction::batchmean}), Error,
      said);
  EXPECT_ERROR(nll_loss(x, tensor<std::int64_t>({0, 1, 2}), {.reduction = Reduction::batchmean}),
               Error, said);
  EXPECT_ERROR(kl_div(scalar(0.0), scalar(1.0), Reduction::batchmean), ShapeError, "needs a batch");
  EXPECT_ERROR(binary_cross_entropy(y, y > 0.5), DTypeError,
               "binary_cross_entropy: the target is bool; convert it with target.to(f32)");
}

}  // namespace
}  // namespace rondo::test
