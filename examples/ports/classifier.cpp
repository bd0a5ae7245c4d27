// PyTorch's tutorial "Training a Classifier": a small convolutional network for CIFAR-10, and its
// accuracy by class.
//
//   build/bin/ports/classifier [--epochs 2]

#include <rondo/rondo.h>

#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

/// The size of an image after a convolution of 5 x 5 and a pooling.
std::int64_t pooled(std::int64_t size) { return (size - 4) / 2; }

struct Net : nn::Module {
  nn::Conv2d conv1, conv2{6, 16, 5};
  nn::MaxPool2d pool{2, {.stride = 2}};
  nn::Linear fc1, fc2{120, 84}, fc3{84, 10};

  Net(std::int64_t channels, std::int64_t size)
      : conv1(channels, 6, 5), fc1(16 * pooled(pooled(size)) * pooled(pooled(size)), 120) {}

  Tensor forward(const Tensor& x) override {
    Tensor y = pool(relu(conv1(x)));
    y = pool(relu(conv2(y))).flatten(1);
    return fc3(relu(fc2(relu(fc1(y)))));
  }
  void visit(nn::Visitor& v) override {
    v.child("conv1", conv1);
    v.child("conv2", conv2);
    v.child("fc1", fc1);
    v.child("fc2", fc2);
    v.child("fc3", fc3);
  }
};

int run(int argc, char** argv) {
  std::string dataset = "cifar10";
  int epochs = 2;
  std::int64_t batch = 4, limit = 0;
  rd::flags::CommandLine line("A small convolutional network.");
  line.add("--dataset", dataset, "the images", rd::flags::one_of({"cifar10", "fashion_mnist"}));
  line.add("--epochs", epochs, "passes over the data", rd::flags::count());
  line.add("--batch", batch, "images in a step", rd::flags::count());
  line.add("--limit", limit, "use only so many images; 0: all",
           rd::flags::whole_number(0, 1'000'000'000));
  if (const auto status = line.parse(argc, argv)) return *status;

  const auto open = [&](rd::data::Split split) {
    return rd::data::open_dataset(dataset, split,
                                  {.limit = limit > 0 ? std::optional(limit) : std::nullopt});
  };
  const auto trainset = open(rd::data::Split::train), testset = open(rd::data::Split::test);
  const std::vector<float> half(static_cast<std::size_t>(trainset->channels()), 0.5F);
  const rd::data::ImageTransform normalize({rd::data::ToFloat{}, rd::data::Normalize{half, half}});
  rd::data::DataLoader trainloader(trainset, {.batch_size = batch, .shuffle = true, .workers = 2},
                                   normalize);
  rd::data::DataLoader testloader(testset, {.batch_size = batch, .workers = 2}, normalize);
  const auto& classes = testset->class_names();

  rd::manual_seed(1);
  Net net(trainset->channels(), trainset->height());
  nn::CrossEntropyLoss criterion;
  rd::optim::SGD optimizer(net.parameters(), {.lr = 0.001, .momentum = 0.9});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double running_loss = 0;
    for (auto& [inputs, labels] : trainloader) {
      optimizer.zero_grad();
      const Tensor loss = criterion(net(inputs), labels);
      loss.backward();
      optimizer.step();
      running_loss += loss.item();
    }
    std::printf("epoch %d: loss %.4f\n", epoch,
                running_loss / static_cast<double>(trainloader.size()));
  }

  const rd::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(classes.size());
  Tensor correct = rd::zeros({count}), total = rd::zeros({count});
  for (auto& [images, labels] : testloader) {
    const Tensor is_correct = (net(images).argmax(1) == labels).to(rd::f32);
    correct.index_add_(0, labels, is_correct);
    total.index_add_(0, labels, rd::ones_like(is_correct));
  }
  std::printf("accuracy: %.1f %%\n", 100 * correct.sum().item() / total.sum().item());
  for (std::int64_t i = 0; i < count; ++i) {
    std::printf("accuracy of %s: %.1f %%\n", classes[i].c_str(),
                100 * correct[i].item() / std::max(total[i].item(), 1.0));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
