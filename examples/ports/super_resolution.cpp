// Super-resolution (Shi et al. 2016): learns to double the resolution of grey images. The network
// works at the low resolution and shuffles channels into pixels at the end.
//
//   build/bin/ports/super_resolution [--dataset fashion_mnist] [--upscale 2]

#include <rondo/rondo.h>

#include <cmath>
#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

nn::Sequential network(std::int64_t upscale) {
  nn::Sequential net(
      nn::Conv2d(1, 64, 5, {.padding = 2}), nn::ReLU(), nn::Conv2d(64, 64, 3, {.padding = 1}),
      nn::ReLU(), nn::Conv2d(64, 32, 3, {.padding = 1}), nn::ReLU(),
      nn::Conv2d(32, upscale * upscale, 3, {.padding = 1}), nn::PixelShuffle(upscale));
  for (const std::int64_t layer : {0, 2, 4, 6}) {
    const Tensor& weight = net[layer].as<nn::Conv2d>().weight;
    nn::init::orthogonal_(weight, layer < 6 ? std::sqrt(2.0) : 1);
  }
  return net;
}

/// The images at the low resolution, and at the full one.
rd::data::Transform halves(std::int64_t upscale) {
  return [upscale, to_float = rd::data::ImageTransform()](
             rd::data::Batch batch, const rd::data::BatchContext& context) -> rd::data::Batch {
    const Tensor full = to_float(std::move(batch), context).input.mean({1}, true);
    return {avg_pool2d(full, upscale), full};
  };
}

/// The mean peak signal-to-noise ratio in dB.
double psnr(nn::Module& net, rd::data::DataLoader& loader) {
  const rd::NoGradGuard no_grad;
  double sum = 0;
  for (auto& [small, full] : loader) sum += -10 * std::log10(mse_loss(net(small), full).item());
  return sum / static_cast<double>(loader.size());
}

int run(int argc, char** argv) {
  std::string dataset = "cifar10", weights;
  int epochs = 2;
  std::int64_t batch = 64, limit = 0, upscale = 2;
  double lr = 0.01;
  rd::flags::CommandLine line("Learns to raise the resolution of grey images.");
  line.add("--dataset", dataset, "the images", rd::flags::one_of(rd::data::dataset_names()));
  line.add("--upscale", upscale, "the factor; must divide the images' sides", rd::flags::count());
  line.add("--epochs", epochs, "passes over the data", rd::flags::count());
  line.add("--batch", batch, "images in a step", rd::flags::count());
  line.add("--limit", limit, "use only so many images; 0: all",
           rd::flags::whole_number(0, 1'000'000'000));
  line.add("--lr", lr, "learning rate", rd::flags::positive());
  line.add("--weights", weights, "write the weights to this file after each epoch");
  if (const auto status = line.parse(argc, argv)) return *status;

  rd::manual_seed(123);
  const auto loader = [&](rd::data::Split split) {
    return rd::data::DataLoader(
        rd::data::open_dataset(dataset, split,
                               {.limit = limit > 0 ? std::optional(limit) : std::nullopt}),
        {.batch_size = batch, .shuffle = split == rd::data::Split::train}, halves(upscale));
  };
  rd::data::DataLoader train = loader(rd::data::Split::train), test = loader(rd::data::Split::test);
  nn::Sequential net = network(upscale);
  rd::optim::Adam adam(net.parameters(), {.lr = lr});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double sum = 0;
    for (auto& [small, full] : train) {
      adam.zero_grad();
      const Tensor loss = mse_loss(net(small), full);
      loss.backward();
      adam.step();
      sum += loss.item();
    }
    std::printf("epoch %d: loss %.4f, test %.2f dB\n", epoch,
                sum / static_cast<double>(train.size()), psnr(net, test));
    if (!weights.empty()) rd::io::save_weights(weights, net.state_dict());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
