// PyTorch's tutorial "Quickstart": a network for pictures of clothes is trained, saved, loaded and
// used.
//
//   build/bin/ports/quickstart [--epochs 5]

#include <rondo/rondo.h>

#include <cstdio>
#include <iostream>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

struct NeuralNetwork : nn::Module {
  nn::Flatten flatten;
  nn::Sequential linear_relu_stack{nn::Linear(28 * 28, 512), nn::ReLU(), nn::Linear(512, 512),
                                   nn::ReLU(), nn::Linear(512, 10)};

  Tensor forward(const Tensor& x) override { return linear_relu_stack(flatten(x)); }
  void visit(nn::Visitor& v) override {
    v.child("flatten", flatten);
    v.child("linear_relu_stack", linear_relu_stack);
  }
};

void train(NeuralNetwork& model, rd::data::DataLoader& loader, optim::Optimizer& optimizer,
           int epoch) {
  model.train();
  double sum = 0;
  for (auto& [x, y] : loader) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    sum += loss.item();
  }
  std::printf("epoch %d: loss %.4f\n", epoch, sum / static_cast<double>(loader.size()));
}

void test(NeuralNetwork& model, rd::data::DataLoader& loader) {
  model.eval();
  const rd::NoGradGuard no_grad;
  double loss = 0, correct = 0;
  for (auto& [x, y] : loader) {
    const Tensor predicted = model(x);
    loss += cross_entropy(predicted, y).item();
    correct += (predicted.argmax(1) == y).sum().item();
  }
  std::printf("test: accuracy %.1f %%, loss %.4f\n",
              100 * correct / static_cast<double>(loader.dataset().size()),
              loss / static_cast<double>(loader.size()));
}

int run(int argc, char** argv) {
  int epochs = 5;
  std::int64_t batch = 64, limit = 0;
  double lr = 1e-3;
  std::string file = "model.pth";
  rd::flags::CommandLine line("A network for pictures of clothes.");
  line.add("--epochs", epochs, "passes over the data", rd::flags::count());
  line.add("--batch", batch, "images in a step", rd::flags::count());
  line.add("--limit", limit, "use only so many images; 0: all",
           rd::flags::whole_number(0, 1'000'000'000));
  line.add("--lr", lr, "learning rate", rd::flags::positive());
  line.add("--save", file, "the file of the weights");
  if (const auto status = line.parse(argc, argv)) return *status;

  const auto open = [&](rd::data::Split split) {
    return rd::data::open_dataset("fashion_mnist", split,
                                  {.limit = limit > 0 ? std::optional(limit) : std::nullopt});
  };
  const rd::data::ImageTransform to_tensor({rd::data::ToFloat{}});
  const auto test_data = open(rd::data::Split::test);
  rd::data::DataLoader training(open(rd::data::Split::train), {.batch_size = batch}, to_tensor);
  rd::data::DataLoader testing(test_data, {.batch_size = batch}, to_tensor);
  const rd::data::Batch first = *testing.begin();
  std::cout << "x " << first.input.shape() << ", y " << first.target.shape() << "\n";

  rd::manual_seed(1);
  NeuralNetwork model;
  std::cout << model << "\n";
  optim::SGD optimizer(model.parameters(), {.lr = lr});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    train(model, training, optimizer, epoch);
    test(model, testing);
  }
  rd::io::save_torch(file, model.state_dict());

  NeuralNetwork loaded;
  loaded.load_state_dict(rd::io::load_weights(file));
  loaded.eval();
  const auto& classes = test_data->class_names();
  const auto predicted = loaded(first.input).argmax(1)[0].item<std::int64_t>();
  const auto actual = first.target[0].item<std::int64_t>();
  std::printf("predicted: %s, actual: %s\n", classes[predicted].c_str(), classes[actual].c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
