// 06_quantize: what bytes in place of floats cost, and what they save.
//
//   build/bin/06_quantize                                             # an MLP on MNIST
//   build/bin/06_quantize --model resnet --weights cifar10_resnet20   # a ResNet on CIFAR-10
//
// The MLP is trained first, for a minute; its Linear layers are then quantised dynamically, which
// needs nothing but the model. The ResNet comes with weights that others have trained, and its
// convolutions are quantised by the ranges that a few hundred images show (static), and once
// more after --qat-steps steps of training that feel the rounding (qat). --device cuda trains on a
// GPU; bytes are computed with on the CPU, and so all is measured there. Each line says how many of
// the test images are right, how large the saved file is, and how many images a second go through,
// one at a time and 64 at a time.

#include <chrono>
#include <cstdio>
#include <filesystem>
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
#include "extras/quantization/prepare.h"
#include "io/safetensors.h"
#include "optim/lr_schedule.h"
#include "optim/sgd.h"
#include "pretrained.h"
#include "tensor/creation.h"
#include "train/evaluate.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;
using Clock = std::chrono::steady_clock;

namespace {

struct Flags {
  std::string model = "mlp", weights = "cifar10_resnet20", folder, save;
  std::shared_ptr<rd::dist::Communicator> comm = rd::dist::init();
  std::int64_t tested = 10'000, calibration = 512, qat_steps = 100, train_steps = 2000,
               hidden = 512;
  rd::Device device;  // that is trained on
};

struct Images {
  Tensor pixels, labels;
};

/// Normalised, all at once.
Images load(const std::string& dataset, rd::data::Split split, std::int64_t limit,
            const Flags& flags, const rd::data::ImageStatistics& known) {
  const auto from = rd::data::open_dataset(
      dataset, split, {.download = {.data_dir = flags.folder}, .limit = limit});
  std::vector<std::int64_t> all(static_cast<std::size_t>(from->size()));
  std::iota(all.begin(), all.end(), 0);
  const rd::data::Batch batch = from->get_batch(all);
  const auto channels = static_cast<std::int64_t>(known.mean.size());
  const Tensor mean = rd::tensor(known.mean, {1, channels, 1, 1}),
               std = rd::tensor(known.std, {1, channels, 1, 1});
  Tensor pixels = batch.input.to(rd::f32);  // in place from here on: these are 190 MB of MNIST
  pixels /= 255.0;
  pixels -= mean;
  pixels /= std;
  return {pixels, batch.target};
}

/// Percent. Calibrates, too, what has been prepared for it.
double accuracy(nn::Module& net, const Images& test, const Flags& flags) {
  const auto images = std::make_shared<rd::data::TensorDataset>(test.pixels, test.labels);
  return 100 * rd::train::evaluate(net, images, {}, *flags.comm).accuracy();
}

/// The median of repeated passes over a batch of that size.
double images_per_second(nn::Module& net, const Images& test, std::int64_t batch) {
  const rd::NoGradGuard no_grad;
  const Tensor x = test.pixels.narrow(0, 0, std::min(batch, test.pixels.size(0)))
                       .contiguous(rd::MemoryFormat::channels_last);
  std::vector<double> seconds;
  const auto end = Clock::now() + std::chrono::milliseconds(500);
  for (int warm = 0; warm < 3; ++warm) (void)net(x);
  while (Clock::now() < end || seconds.size() < 3) {
    const auto start = Clock::now();
    (void)net(x);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return static_cast<double>(x.size(0)) / *middle;
}

/// One line of the table; under --save the weights are saved as PREFIX-WHAT.safetensors.
void report(const std::string& what, nn::Module& net, const Images& test, const Flags& flags) {
  net.eval();
  const double right = accuracy(net, test, flags);
  std::int64_t bytes = 0;
  if (flags.save.empty()) {
    for (const auto& [name, x] : net.state_dict()) bytes += x.nbytes();
  } else {
    const std::string file = flags.save + "-" + what + ".safetensors";
    rd::io::save_safetensors(file, net.state_dict());
    bytes = static_cast<std::int64_t>(std::filesystem::file_size(file));
  }
  std::printf("%-8s %8.2f %% right  %9.1f kB  %8.0f images/s one by one  %8.0f by 64\n",
              what.c_str(), right, static_cast<double>(bytes) / 1e3,
              images_per_second(net, test, 1), images_per_second(net, test, 64));
  std::fflush(stdout);
}

/// `net` is in the mode that it is to be trained in, and on the CPU before and after.
void train(nn::Module& net, const Images& images, double lr, std::int64_t steps,
           rd::Device device) {
  constexpr std::int64_t batch = 64;
  net.to(device);
  optim::SGD sgd(net.parameters(), {.lr = lr, .momentum = 0.9});
  optim::CosineAnnealingLR schedule(sgd, {.t_max = steps});
  const std::int64_t n = images.pixels.size(0);
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor index = rd::randint(0, n, {std::min(batch, n)});
    sgd.zero_grad();
    cross_entropy(net(images.pixels.index_select(0, index).to(device)),
                  images.labels.index_select(0, index).to(device))
        .backward();
    sgd.step();
    schedule.step();
  }
  net.to(rd::Device::cpu());
}

void quantize_mlp(const Flags& flags) {
  const rd::data::ImageStatistics known = rd::data::statistics_of("mnist");
  const Images images = load("mnist", rd::data::Split::train, 60'000, flags, known),
               test = load("mnist", rd::data::Split::test, flags.tested, flags, known);
  nn::AnyModule net = nn::Mlp({.hidden = flags.hidden});
  train(net, images, 0.05, flags.train_steps, flags.device);
  report("f32", net, test, flags);
  nn::quantize_dynamic(net);
  report("dynamic", net, test, flags);
}

void quantize_resnet(const Flags& flags) {
  const auto [weights, lacks] = examples::recognise(rd::hub::load_pretrained(flags.weights));
  rd::require(weights.has_value(), "--weights ", flags.weights,
              ": no ResNet for 32 x 32 images: ", lacks);
  rd::require(!weights->mean.empty(), "--weights ", flags.weights,
              ": nothing is known of how its images are normalised");
  nn::AnyModule net = nn::make_model(
      weights->model, {.num_classes = weights->classes, .shortcut = weights->shortcut});
  net.load_state_dict(weights->state);
  const std::string dataset = weights->classes == 10 ? "cifar10" : "cifar100";
  const rd::data::ImageStatistics known{.mean = weights->mean, .std = weights->std};
  const Images images = load(dataset, rd::data::Split::train, 20'000, flags, known),
               test = load(dataset, rd::data::Split::test, flags.tested, flags, known);
  report("f32", net, test, flags);

  const Tensor example = images.pixels.narrow(0, 0, 2);
  nn::AnyModule fixed = nn::clone(net);
  nn::prepare(fixed, example);
  fixed.eval();
  accuracy(fixed,
           {images.pixels.narrow(0, 0, flags.calibration),
            images.labels.narrow(0, 0, flags.calibration)},
           flags);
  nn::convert(fixed);
  report("static", fixed, test, flags);

  if (flags.qat_steps == 0) return;
  net.train();
  nn::prepare_qat(net, example);
  nn::freeze_bn_stats(net);  // a hundred batches would know less than those that made them
  train(net, images, 1e-4, flags.qat_steps, flags.device);
  net.eval();
  nn::convert(net);
  report("qat", net, test, flags);
}

int run(int argc, char** argv) {
  Flags flags;
  rd::flags::CommandLine app("Trains or loads a network and computes with it in bytes");
  app.add("--model", flags.model, "the network", rd::flags::one_of({"mlp", "resnet"}));
  app.add("--weights", flags.weights, "of the resnet: a name that hub knows, or a file");
  app.add("--test-images", flags.tested, "how many to be tested on",
          rd::flags::whole_number(1, 10'000));
  app.add("--train-steps", flags.train_steps, "of the mlp", rd::flags::whole_number(0, 1'000'000));
  app.add("--hidden", flags.hidden, "how wide the mlp's hidden layers are",
          rd::flags::whole_number(1, 16'384));
  app.add("--calibration", flags.calibration, "images that show the static ranges",
          rd::flags::whole_number(1, 20'000));
  app.add("--qat-steps", flags.qat_steps, "of training with the rounding in it; 0: none",
          rd::flags::whole_number(0, 1'000'000));
  app.add("--save", flags.save, "beginning of the names of files for the weights");
  app.add("--data", flags.folder, "folder with the images; else as cifar_resnet looks");
  std::string device = "cpu";
  app.add("--device", device, "where it is trained: cpu, cuda or cuda:N");
  if (auto status = app.parse(argc, argv)) return *status;
  flags.device = rd::Device::parse(device);
  rd::manual_seed(1);
  if (flags.model == "mlp") {
    quantize_mlp(flags);
  } else {
    quantize_resnet(flags);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return rd::dist::run([&] { return run(argc, argv); });
}
