// 04_fine_tune: how much pretrained weights help on another task.
//
//   build/bin/04_fine_tune --weights cifar10_resnet20
//   build/bin/04_fine_tune --weights FILE --images 2000 --epochs 2 --device cuda
//
// The pretrained ResNet-20 was trained on CIFAR-10, on photographs such as ships and frogs. This
// program trains it on few images of Fashion-MNIST, which show clothes, and does so twice: from the
// pretrained weights with a new last layer, and from random weights. Both runs take the same number
// of steps with the same optimizer. The first layers of a network respond to edges and textures,
// which both data sets have, so the pretrained network has less to learn.
//
// --weights takes a name that hub knows (extras/hub/pretrained.h), or a file.

#include <chrono>
#include <cstdio>
#include <numeric>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "data/open.h"
#include "dist/launch/init.h"
#include "extras/command_line.h"
#include "extras/hub/pretrained.h"
#include "nn/select.h"
#include "optim/lr_schedule.h"
#include "optim/sgd.h"
#include "tensor/creation.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

struct Images {
  Tensor pixels, labels;
};

/// Brings the images into the form that the network was trained on: three channels of 32 x 32,
/// normalised. All three channels get the grey value, and each side gets two rows or columns of
/// black, since the images have 28 x 28 pixels.
Images prepared(const rd::data::Dataset& from) {
  const rd::data::ImageStatistics known = rd::data::statistics_of("fashion_mnist");
  const double mean = known.mean[0], std = known.std[0];
  std::vector<std::int64_t> all(static_cast<std::size_t>(from.size()));
  std::iota(all.begin(), all.end(), 0);
  const rd::data::Batch batch = from.get_batch(all);
  const std::int64_t n = batch.input.size(0);
  const Tensor grey = (batch.input.to(rd::f32) / 255.0 - mean) / std;
  const Tensor pixels = rd::full({n, 3, 32, 32}, -mean / std);
  pixels.narrow(2, 2, 28).narrow(3, 2, 28).copy_(grey.expand({n, 3, 28, 28}));
  return {pixels.contiguous(rd::MemoryFormat::channels_last), batch.target};
}

double accuracy(nn::Module& net, const Images& test) {
  const rd::NoGradGuard no_grad;
  net.eval();
  double right = 0;
  const std::int64_t n = test.pixels.size(0), batch = 250;
  for (std::int64_t at = 0; at < n; at += batch) {
    const std::int64_t size = std::min(batch, n - at);
    const Tensor guess = net(test.pixels.narrow(0, at, size)).argmax(1);
    right += eq(guess, test.labels.narrow(0, at, size)).sum().item<double>();
  }
  net.train();
  return 100 * right / static_cast<double>(n);
}

/// Trains the parameters that the optimizer has, and prints the accuracy after each epoch.
double train(const char* what, nn::Module& net, optim::Optimizer& optimizer, const Images& images,
             const Images& test, int epochs) {
  constexpr std::int64_t batch = 50;
  const std::int64_t n = images.pixels.size(0), steps = n / batch;
  optim::CosineAnnealingLR schedule(optimizer, {.t_max = epochs * steps});
  const auto start = std::chrono::steady_clock::now();
  double reached = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const Tensor order = rd::randperm(n).to(images.labels.device());
    for (std::int64_t step = 0; step < steps; ++step) {
      const Tensor index = order.narrow(0, step * batch, batch);
      optimizer.zero_grad();
      cross_entropy(net(images.pixels.index_select(0, index)), images.labels.index_select(0, index))
          .backward();
      optimizer.step();
      schedule.step();
    }
    reached = accuracy(net, test);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%s: after epoch %d and %.1f s %.2f %% correct\n", what, epoch, seconds.count(),
                reached);
    std::fflush(stdout);
  }
  return reached;
}

int run(int argc, char** argv) {
  std::string weights = "cifar10_resnet20", folder, where = "cpu";
  std::int64_t count = 1000, tested = 2000;
  int epochs = 3;
  rd::flags::CommandLine app(
      "Trains ResNet-20 on Fashion-MNIST, from pretrained and from random weights");
  app.add("--weights", weights, "pretrained weights: a name that hub knows, or a file");
  app.add("--images", count, "number of training images", rd::flags::whole_number(50, 60'000));
  app.add("--test-images", tested, "number of test images", rd::flags::whole_number(1, 10'000));
  app.add("--epochs", epochs, "passes over the training images", rd::flags::whole_number(1, 1000));
  app.add("--data", folder, "folder with Fashion-MNIST; if not set, as for cifar_resnet");
  app.add("--device", where, "cpu, cuda or cuda:N");
  if (auto status = app.parse(argc, argv)) return *status;
  const rd::Device device = rd::Device::parse(where);
  const auto open = [&](rd::data::Split split, std::int64_t limit) {
    const Images all = prepared(*rd::data::open_dataset(
        "fashion_mnist", split, {.download = {.data_dir = folder}, .limit = limit}));
    return Images{all.pixels.to(device), all.labels.to(device)};
  };
  const Images images = open(rd::data::Split::train, count),
               test = open(rd::data::Split::test, tested);

  rd::manual_seed(1);
  nn::CifarResNet tuned = rd::hub::cifar_resnet(20, {.pretrained = weights});
  tuned.fc = nn::Linear(64, 10);  // a new last layer for the new classes
  tuned.to(device);
  nn::freeze(tuned, "conv1.*");  // its edge filters fit these images as well
  optim::SGD gently({{nn::parameters_like(tuned, "fc.*"), {.lr = 0.1, .momentum = 0.9}},
                     {nn::parameters_unlike(tuned, "fc.*"), {.lr = 0.02, .momentum = 0.9}}});
  const double with = train("fine-tuned  ", tuned, gently, images, test, epochs);

  rd::manual_seed(1);
  nn::CifarResNet fresh = rd::hub::cifar_resnet(20);
  fresh.to(device);
  optim::SGD sgd(fresh.parameters(), {.lr = 0.1, .momentum = 0.9});
  const double without = train("from scratch", fresh, sgd, images, test, epochs);
  std::printf("the pretrained weights gain %.2f percentage points\n", with - without);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return rd::dist::run([&] { return run(argc, argv); });
}
