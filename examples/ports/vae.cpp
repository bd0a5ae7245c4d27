// A variational autoencoder (Kingma and Welling 2014): compresses digits to 20 numbers, and draws
// new digits from noise.
//
//   build/bin/ports/vae [--dataset fashion_mnist] [--samples vae.png]

#include <rondo/rondo.h>

#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

constexpr std::int64_t pixels = 28 * 28, hidden = 400, latent = 20;

struct Vae : nn::Module {
  nn::Linear fc1{pixels, hidden}, fc21{hidden, latent}, fc22{hidden, latent};
  nn::Linear fc3{latent, hidden}, fc4{hidden, pixels};

  struct Code {
    Tensor mean, log_variance;
  };
  Code encode(const Tensor& x) {
    const Tensor h = relu(fc1(x));
    return {fc21(h), fc22(h)};
  }
  /// A draw from the code's distribution, through which gradients flow.
  Tensor draw(const Code& code) {
    const Tensor deviation = exp(code.log_variance * 0.5);
    return code.mean + deviation * rd::randn_like(deviation);
  }
  Tensor decode(const Tensor& z) { return sigmoid(fc4(relu(fc3(z)))); }
  Tensor forward(const Tensor& x) override { return decode(draw(encode(x))); }
  void visit(nn::Visitor& v) override {
    v.child("fc1", fc1);
    v.child("fc21", fc21);
    v.child("fc22", fc22);
    v.child("fc3", fc3);
    v.child("fc4", fc4);
  }
};

/// The reconstruction's loss plus the divergence of the codes from a standard normal distribution,
/// both as sums.
Tensor loss_of(Vae& vae, const Tensor& x) {
  const Vae::Code code = vae.encode(x);
  const Tensor seen = vae.decode(vae.draw(code));
  const Tensor divergence =
      -0.5 * sum(1.0 + code.log_variance - square(code.mean) - exp(code.log_variance));
  return binary_cross_entropy(seen, x, {.reduction = rd::Reduction::sum}) + divergence;
}

/// Digits drawn from noise, 8 in a row.
void write_samples(Vae& vae, const std::string& path) {
  const rd::NoGradGuard no_grad;
  const Tensor digits = vae.decode(rd::randn({64, latent})).reshape({8, 8, 28, 28});
  const Tensor image = (digits.permute({0, 2, 1, 3}).reshape({1, 224, 224}) * 255.0).to(rd::u8);
  rd::io::write_png(image, path);
}

int run(int argc, char** argv) {
  std::string dataset = "mnist", samples;
  int epochs = 10;
  std::int64_t batch = 128, limit = 0;
  rd::flags::CommandLine line("A variational autoencoder of digits.");
  line.add("--dataset", dataset, "the images", rd::flags::one_of({"mnist", "fashion_mnist"}));
  line.add("--epochs", epochs, "passes over the data", rd::flags::count());
  line.add("--batch", batch, "images in a step", rd::flags::count());
  line.add("--limit", limit, "use only so many images; 0: all",
           rd::flags::whole_number(0, 1'000'000'000));
  line.add("--samples", samples, "write new digits to this PNG file");
  if (const auto status = line.parse(argc, argv)) return *status;

  rd::manual_seed(1);
  const auto set = [&](rd::data::Split split) {
    return rd::data::DataLoader(
        rd::data::open_dataset(dataset, split,
                               {.limit = limit > 0 ? std::optional(limit) : std::nullopt}),
        {.batch_size = batch, .shuffle = split == rd::data::Split::train},
        rd::data::ImageTransform());
  };
  rd::data::DataLoader train = set(rd::data::Split::train), test = set(rd::data::Split::test);
  Vae vae;
  rd::optim::Adam adam(vae.parameters(), {.lr = 1e-3});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double sum = 0, test_sum = 0;
    for (auto& [images, labels] : train) {
      adam.zero_grad();
      const Tensor loss = loss_of(vae, images.flatten(1));
      loss.backward();
      adam.step();
      sum += loss.item();
    }
    for (auto& [images, labels] : test)
      test_sum +=
          rd::no_grad([&, &images = images] { return loss_of(vae, images.flatten(1)); }).item();
    std::printf("epoch %d: loss %.4f, test loss %.4f\n", epoch,
                sum / static_cast<double>(train.dataset().size()),
                test_sum / static_cast<double>(test.dataset().size()));
  }
  if (!samples.empty()) write_samples(vae, samples);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
