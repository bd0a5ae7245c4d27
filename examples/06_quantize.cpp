// 06_quantize: int8 instead of f32, and its effect on accuracy, file size and speed.
//
//   build/bin/06_quantize                                             # an MLP on MNIST
//   build/bin/06_quantize --model resnet --weights cifar10_resnet20   # a ResNet on CIFAR-10
//
// - mlp: the program trains the MLP for about a minute. Then it quantises the Linear layers
//   dynamically, which needs only the model.
// - resnet: the program loads pretrained weights. It quantises the convolutions by the ranges that
//   a few hundred images show (static). Then it trains the f32 model for --qat-steps steps with
//   simulated rounding, and quantises that (quantisation-aware training, qat).
//
// --device cuda trains on a GPU. int8 layers run on the CPU only, so all measurements are made
// there. Each line of the output has the share of correct test images, the size of the saved file,
// and the images per second in batches of 1 and of 64.

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
               hidden = 512, batch = 64;
  rd::Device device;  // for training
};

struct Images {
  Tensor pixels, labels;
};

/// Reads the images of a data set, normalised, as one tensor.
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
  Tensor pixels = batch.input.to(rd::f32);  // then in place: for MNIST these are 190 MB
  pixels /= 255.0;
  pixels -= mean;
  pixels /= std;
  return {pixels, batch.target};
}

/// In percent. A model after nn::prepare also records the ranges of its activations in this pass.
double accuracy(nn::Module& net, const Images& test, const Flags& flags) {
  const auto images = std::make_shared<rd::data::TensorDataset>(test.pixels, test.labels);
  return 100 * rd::train::evaluate(net, images, {}, *flags.comm).accuracy();
}

/// The median over repeated forward passes of one batch.
double images_per_second(nn::Module& net, const Images& test, std::int64_t batch) {
  const rd::NoGradGuard no_grad;
  const Tensor x = test.pixels.narrow(0, 0, std::min(batch, test.pixels.size(0)))
                       .contiguous(rd::MemoryFormat::channels_last);
  std::vector<double> seconds;
  const auto end = Clock::now() + std::chrono::milliseconds(100);
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

/// Prints one line of the table. With --save PREFIX, saves the weights as PREFIX-WHAT.safetensors.
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
  std::printf("%-8s %8.2f %% correct  %9.1f kB  %8.0f images/s at batch 1  %8.0f at batch 64\n",
              what.c_str(), right, static_cast<double>(bytes) / 1e3,
              images_per_second(net, test, 1), images_per_second(net, test, 64));
  std::fflush(stdout);
}

/// Trains on flags.device. The caller sets the mode (nn::Module::train). `net` is on the CPU before
/// and after the call.
void train(nn::Module& net, const Images& images, double lr, std::int64_t steps,
           const Flags& flags) {
  net.to(flags.device);
  optim::SGD sgd(net.parameters(), {.lr = lr, .momentum = 0.9});
  optim::CosineAnnealingLR schedule(sgd, {.t_max = steps});
  const std::int64_t n = images.pixels.size(0);
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor index = rd::randint(0, n, {std::min(flags.batch, n)});
    sgd.zero_grad();
    cross_entropy(net(images.pixels.index_select(0, index).to(flags.device)),
                  images.labels.index_select(0, index).to(flags.device))
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
  train(net, images, 0.05, flags.train_steps, flags);
  report("f32", net, test, flags);
  nn::quantize_dynamic(net);
  report("dynamic", net, test, flags);
}

void quantize_resnet(const Flags& flags) {
  const auto [weights, lacks] = examples::recognise(rd::hub::load_pretrained(flags.weights));
  rd::require(weights.has_value(), "--weights ", flags.weights,
              ": not a ResNet for 32 x 32 images: ", lacks);
  rd::require(!weights->mean.empty(), "--weights ", flags.weights,
              ": the mean and deviation of its training images are unknown");
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
  nn::freeze_bn_stats(net);  // a hundred batches would make worse statistics than the whole run did
  train(net, images, 1e-4, flags.qat_steps, flags);
  net.eval();
  nn::convert(net);
  report("qat", net, test, flags);
}

int run(int argc, char** argv) {
  Flags flags;
  rd::flags::CommandLine app("Trains or loads a network and quantises it to int8");
  app.add("--model", flags.model, "the network", rd::flags::one_of({"mlp", "resnet"}));
  app.add("--weights", flags.weights, "weights of the resnet: a name that hub knows, or a file");
  app.add("--test-images", flags.tested, "number of test images",
          rd::flags::whole_number(1, 10'000));
  app.add("--train-steps", flags.train_steps, "training steps of the mlp",
          rd::flags::whole_number(0, 1'000'000));
  app.add("--batch", flags.batch, "images in a training step", rd::flags::whole_number(1, 10'000));
  app.add("--hidden", flags.hidden, "width of the mlp's hidden layers",
          rd::flags::whole_number(1, 16'384));
  app.add("--calibration", flags.calibration, "images that determine the static ranges",
          rd::flags::whole_number(1, 20'000));
  app.add("--qat-steps", flags.qat_steps, "steps of quantisation-aware training; 0: none",
          rd::flags::whole_number(0, 1'000'000));
  app.add("--save", flags.save, "prefix of the file names for the weights");
  app.add("--data", flags.folder, "folder with the images; if not set, as for cifar_resnet");
  std::string device = "cpu";
  app.add("--device", device, "device for training: cpu, cuda or cuda:N");
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
