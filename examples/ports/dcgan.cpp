// A generative adversarial network of convolutions (Radford et al. 2016): a generator draws images
// of 32 x 32 pixels from noise, and a discriminator learns to tell them from real ones.
//
//   build/bin/ports/dcgan [--dataset cifar10] [--samples dcgan.png]

#include <rondo/rondo.h>

#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

constexpr std::int64_t noise_size = 100;

/// Noise (N, 100, 1, 1) to images (N, channels, 32, 32) in [-1, 1].
nn::Sequential generator(std::int64_t width, std::int64_t channels) {
  const nn::ConvTranspose2dOptions twice{.stride = 2, .padding = 1, .bias = false};
  return nn::Sequential(nn::ConvTranspose2d(noise_size, 4 * width, 4, {.bias = false}),  // 4 x 4
                        nn::BatchNorm2d(4 * width), nn::ReLU(),
                        nn::ConvTranspose2d(4 * width, 2 * width, 4, twice),  // 8 x 8
                        nn::BatchNorm2d(2 * width), nn::ReLU(),
                        nn::ConvTranspose2d(2 * width, width, 4, twice),  // 16 x 16
                        nn::BatchNorm2d(width), nn::ReLU(),
                        nn::ConvTranspose2d(width, channels, 4, twice), nn::Tanh());
}

/// Images to one logit each: positive for real ones.
nn::Sequential discriminator(std::int64_t width, std::int64_t channels) {
  const nn::Conv2dOptions half{.stride = 2, .padding = 1, .bias = false};
  return nn::Sequential(nn::Conv2d(channels, width, 4, half), nn::LeakyReLU(0.2),
                        nn::Conv2d(width, 2 * width, 4, half), nn::BatchNorm2d(2 * width),
                        nn::LeakyReLU(0.2), nn::Conv2d(2 * width, 4 * width, 4, half),
                        nn::BatchNorm2d(4 * width), nn::LeakyReLU(0.2),
                        nn::Conv2d(4 * width, 1, 4, {.bias = false}), nn::Flatten());
}

void init(nn::Module& net) {
  net.apply([](nn::Module& layer) {
    if (auto* norm = dynamic_cast<nn::BatchNorm2d*>(&layer)) {
      nn::init::normal_(norm->weight, 1, 0.02);
    } else if (auto* conv = dynamic_cast<nn::Conv2d*>(&layer)) {
      nn::init::normal_(conv->weight, 0, 0.02);
    } else if (auto* up = dynamic_cast<nn::ConvTranspose2d*>(&layer)) {
      nn::init::normal_(up->weight, 0, 0.02);
    }
  });
}

/// The loss if all images should be `real` (1) or not (0).
Tensor loss_as(const Tensor& logits, double real) {
  return bce_with_logits(logits, rd::full(logits.shape(), real));
}

void write_images(const Tensor& images, const std::string& path) {
  const std::int64_t channels = images.size(1);
  const Tensor rows = images.reshape({-1, 8, channels, 32, 32}).permute({2, 0, 3, 1, 4});
  const Tensor grid = ((rows.reshape({channels, -1, 256}) + 1.0) * 127.5).to(rd::u8);
  rd::io::write_png(grid.contiguous(), path);
}

int run(int argc, char** argv) {
  std::string dataset = "cifar10", samples;
  int epochs = 25;
  std::int64_t batch = 64, limit = 0, width = 64;
  double lr = 2e-4;
  rd::flags::CommandLine line("A generative adversarial network of small images.");
  line.add("--dataset", dataset, "the images", rd::flags::one_of(rd::data::dataset_names()));
  line.add("--epochs", epochs, "passes over the data", rd::flags::count());
  line.add("--batch", batch, "images in a step", rd::flags::count());
  line.add("--limit", limit, "use only so many images; 0: all",
           rd::flags::whole_number(0, 1'000'000'000));
  line.add("--width", width, "channels of the narrowest layer", rd::flags::count());
  line.add("--lr", lr, "learning rate", rd::flags::positive());
  line.add("--samples", samples, "write images to this PNG file after each epoch");
  if (const auto status = line.parse(argc, argv)) return *status;

  rd::manual_seed(1);
  const auto images = rd::data::open_dataset(
      dataset, rd::data::Split::train, {.limit = limit > 0 ? std::optional(limit) : std::nullopt});
  const std::int64_t channels = images->channels(), border = (32 - images->width()) / 2;
  rd::data::DataLoader loader(images, {.batch_size = batch, .shuffle = true, .drop_last = true},
                              rd::data::ImageTransform());
  nn::Sequential g = generator(width, channels), d = discriminator(width, channels);
  init(g);
  init(d);
  optim::Adam adam_g(g.parameters(), {.lr = lr, .betas = {0.5, 0.999}}),
      adam_d(d.parameters(), {.lr = lr, .betas = {0.5, 0.999}});
  const Tensor fixed = rd::randn({64, noise_size, 1, 1});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double loss_g = 0, loss_d = 0;
    for (auto& [pictures, labels] : loader) {
      const Tensor real =
          pad(pictures * 2.0 - 1.0, {border, border, border, border}, rd::PadMode::constant, -1.0);
      const Tensor fake = g(rd::randn({batch, noise_size, 1, 1}));
      adam_d.zero_grad();
      const Tensor told = loss_as(d(real), 1) + loss_as(d(fake.detach()), 0);
      told.backward();
      adam_d.step();
      adam_g.zero_grad();
      const Tensor fooled = loss_as(d(fake), 1);
      fooled.backward();
      adam_g.step();
      loss_d += told.item() / static_cast<double>(loader.size());
      loss_g += fooled.item() / static_cast<double>(loader.size());
    }
    std::printf("epoch %d: loss of the discriminator %.4f, of the generator %.4f\n", epoch, loss_d,
                loss_g);
    if (!samples.empty()) write_images(rd::no_grad([&] { return g(fixed); }), samples);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
