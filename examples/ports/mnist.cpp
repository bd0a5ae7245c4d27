// A small convolutional network for handwritten digits.
//
//   build/bin/ports/mnist [--dataset fashion_mnist] [--epochs 14]

#include <rondo/rondo.h>

#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

struct Net : nn::Module {
  nn::Conv2d conv1{1, 32, 3}, conv2{32, 64, 3};
  nn::Dropout dropout1{0.25}, dropout2{0.5};
  nn::Linear fc1{9216, 128}, fc2{128, 10};

  Tensor forward(const Tensor& x) override {
    const Tensor seen = max_pool2d(relu(conv2(relu(conv1(x)))), 2);
    const Tensor hidden = relu(fc1(dropout1(seen).flatten(1)));
    return log_softmax(fc2(dropout2(hidden)), 1);
  }
  void visit(nn::Visitor& v) override {
    v.child("conv1", conv1);
    v.child("conv2", conv2);
    v.child("dropout1", dropout1);
    v.child("dropout2", dropout2);
    v.child("fc1", fc1);
    v.child("fc2", fc2);
  }
};

void train(Net& net, rd::data::DataLoader& loader, optim::Optimizer& optimizer, int epoch) {
  net.train();
  double sum = 0;
  for (auto& [images, labels] : loader) {
    optimizer.zero_grad();
    const Tensor loss = nll_loss(net(images), labels);
    loss.backward();
    optimizer.step();
    sum += loss.item();
  }
  std::printf("epoch %d: loss %.4f\n", epoch, sum / static_cast<double>(loader.size()));
}

void test(Net& net, rd::data::DataLoader& loader) {
  const nn::EvalMode eval(net);
  const rd::NoGradGuard no_grad;
  double loss = 0;
  std::int64_t correct = 0;
  for (auto& [images, labels] : loader) {
    const Tensor output = net(images);
    loss += nll_loss(output, labels, {.reduction = rd::Reduction::sum}).item();
    correct += eq(output.argmax(1), labels).sum().item<std::int64_t>();
  }
  const std::int64_t total = loader.dataset().size();
  std::printf("test: loss %.4f, %ld of %ld correct\n", loss / static_cast<double>(total), correct,
              total);
}

int run(int argc, char** argv) {
  std::string dataset = "mnist";
  int epochs = 14;
  std::int64_t batch = 64, limit = 0;
  double lr = 1, gamma = 0.7;
  rd::flags::CommandLine line("A small convolutional network for handwritten digits.");
  line.add("--dataset", dataset, "the images", rd::flags::one_of({"mnist", "fashion_mnist"}));
  line.add("--epochs", epochs, "passes over the data", rd::flags::count());
  line.add("--batch", batch, "images in a step", rd::flags::count());
  line.add("--limit", limit, "use only so many images; 0: all",
           rd::flags::whole_number(0, 1'000'000'000));
  line.add("--lr", lr, "learning rate", rd::flags::positive());
  line.add("--gamma", gamma, "factor of the learning rate after each epoch");
  if (const auto status = line.parse(argc, argv)) return *status;

  rd::manual_seed(1);
  const rd::data::ImageTransform normalize(
      {rd::data::ToFloat{}, rd::data::Normalize{{0.1307F}, {0.3081F}}});
  const auto open = [&](rd::data::Split split) {
    return rd::data::open_dataset(dataset, split,
                                  {.limit = limit > 0 ? std::optional(limit) : std::nullopt});
  };
  rd::data::DataLoader train_set(open(rd::data::Split::train),
                                 {.batch_size = batch, .shuffle = true, .workers = 1}, normalize);
  rd::data::DataLoader test_set(open(rd::data::Split::test), {.batch_size = 1000}, normalize);
  Net net;
  optim::Adadelta optimizer(net.parameters(), {.lr = lr});
  optim::StepLR schedule(optimizer, {.step_size = 1, .gamma = gamma});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    train(net, train_set, optimizer, epoch);
    test(net, test_set);
    schedule.step();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
