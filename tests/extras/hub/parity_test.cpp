// The logits of each pretrained network, compared with PyTorch's for the same images
// (tests/golden/make_pretrained.py).

#include <gtest/gtest.h>

#include <numeric>

#include "data/open.h"
#include "data/transforms.h"
#include "extras/hub/pretrained.h"
#include "io/weights.h"
#include "support/environment.h"
#include "support/golden.h"
#include "support/mnist_cnn.h"
#include "support/support.h"

namespace rondo::test {
namespace {

/// The first `count` test images.
Tensor first_images(const std::string& dataset, std::int64_t count, std::vector<float> mean,
                    std::vector<float> std) {
  const auto images = data::open_dataset(dataset, data::Split::test, {});
  const data::ImageTransform transform(
      {data::ToFloat{}, data::Normalize{std::move(mean), std::move(std)}}, {});
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return transform.apply(images->get_batch(indices).input, indices);
}

class Parity : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "no weights under $RONDO_DATA";
  }
  /// Compares model(x) with the golden of `file`.
  void compare(nn::Module& model, const Tensor& x, const std::string& file) {
    const NoGradGuard no_grad;
    model.eval();
    const Tensor wanted = golden_[file];
    EXPECT_TRUE(all_close(model(x), wanted, 1e-4)) << file;
  }
  std::string path(const std::string& file) const { return (folder_ / file).string(); }

  std::filesystem::path folder_ = real_data() / "weights";
  Golden golden_{"pretrained.txt"};
};

TEST_F(Parity, ResNet20OfBothFamilies) {
  nn::CifarResNet legacy =
      hub::cifar_resnet(20, {.pretrained = path("cifar10_resnet20_legacy.th")});
  compare(legacy, first_images("cifar10", 64, {0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}),
          "cifar10_resnet20_legacy.th");
  nn::CifarResNet modern = hub::cifar_resnet(20, {.pretrained = path("cifar10_resnet20_zip.pth")});
  compare(modern,
          first_images("cifar10", 64, {0.4914F, 0.4822F, 0.4465F}, {0.2023F, 0.1994F, 0.2010F}),
          "cifar10_resnet20_zip.pth");
}

TEST_F(Parity, MnistCnnFromBothForms) {
  const Tensor x = first_images("mnist", 64, {0.1307F}, {0.3081F});
  for (const std::string file : {"mnist_cnn.pt", "mnist_cnn.safetensors"}) {
    MnistCnn net;
    net.load_state_dict(io::load_weights(path(file)));
    compare(net, x, file);
  }
}

}  // namespace
}  // namespace rondo::test
