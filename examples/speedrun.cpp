// speedrun: trains a network on CIFAR-10 to about 94 % in as few minutes as possible.
//
//   build/bin/speedrun                # one run
//   build/bin/speedrun --runs 5       # the mean of five seeds
//   build/bin/speedrun --amp bf16     # products in bf16, where the processor has them
//
// For GPUs this is a well-known race; the network, its recipe and its rates are those of airbench
// (Jordan 2024, arXiv:2404.00498, with Muon). What makes it learn fast:
//
// - The first layer whitens windows of 2 x 2 pixels: its filters are their principal components, of
//   length 1 / √variance. They come from the data and are not trained.
// - The other filters begin as the identity (init::dirac_), so that images reach the last layer.
// - Muon trains them. It takes a matrix, so a convolution's weight is one here: a row for a filter.
//   All rows together keep their length.
// - Each image is mirrored in every second epoch, instead of at random, so that two epochs show it
//   both ways; and it is shifted by up to two pixels.
// - In the test a prediction is a mean over an image, its mirror image, and both of them shifted by
//   a pixel to the lower right and to the upper left; shifted images count half.
//
// bench/peers/speedrun.py is the same in PyTorch, and docs/results/models.md has the minutes of
// both. Read next: optim/layerwise.h (Muon), nn/init.h.

#include <rondo/rondo.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "extras/command_line.h"
#include "extras/linalg/linalg.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

struct Settings {
  std::string data, device = "cpu", amp;
  std::int64_t runs = 1, seed = 1, batch = 2000, limit = 50'000, test_limit = 10'000;
  double epochs = 8;
};

// ---- Images

constexpr std::int64_t side = 32, margin = 2;

struct Images {
  Tensor padded;  // f32 (N, 36, 36, 3), normalised, with a mirrored margin
  Tensor labels;  // i64 (N)
};

Images read(const Settings& s, rd::data::Split split, std::int64_t limit) {
  const auto set =
      rd::data::open_dataset("cifar10", split, {.download = {.data_dir = s.data}, .limit = limit});
  std::vector<std::int64_t> all(static_cast<std::size_t>(set->size()));
  std::iota(all.begin(), all.end(), 0);
  const rd::data::Batch batch = set->get_batch(all);
  const rd::data::ImageStatistics known = rd::data::statistics_of("cifar10");
  const Tensor mean = rd::tensor(known.mean).view({3, 1, 1}),
               std = rd::tensor(known.std).view({3, 1, 1});
  const Tensor pixels = (batch.input.to(rd::f32) / 255.0 - mean) / std;
  const Tensor padded = pad(pixels, {margin, margin, margin, margin}, "reflect");
  const rd::Device device = rd::Device::parse(s.device);
  return {padded.permute({0, 2, 3, 1}).contiguous().to(device), batch.target.to(device)};
}

/// Images `rows` (n) as (n, 3, 32, 32) in channels_last: the windows that begin at row `top` and
/// column `left` of the padded images, each i64 (n) or (1), and mirrored where `mirrored` is true.
Tensor windows(const Tensor& padded, const Tensor& rows, const Tensor& top, const Tensor& left,
               const Tensor& mirrored) {
  const Tensor along = rd::arange(side).to(padded.device());
  const Tensor y = top.unsqueeze(1) + along;
  const Tensor x = left.unsqueeze(1) + where(mirrored.unsqueeze(1), side - 1 - along, along);
  return padded[{rows.view({-1, 1, 1}), y.unsqueeze(2), x.unsqueeze(1)}].permute({0, 3, 1, 2});
}

// ---- Network

/// A 3 x 3 convolution, padded to keep the size. Its weight is the matrix (outputs, inputs · 9).
struct Conv : nn::Module {
  std::int64_t inputs;
  Tensor weight;

  Conv(std::int64_t inputs, std::int64_t outputs)
      : inputs(inputs), weight(rd::empty({outputs, inputs * 9})) {
    nn::init::kaiming_uniform_(weight, {.slope = std::sqrt(5.0)});
    nn::init::dirac_(filters().narrow(0, 0, inputs));
  }
  Tensor filters() const { return weight.view({-1, inputs, 3, 3}); }
  Tensor forward(const Tensor& x) override { return conv2d(x, filters(), {}, {.padding = 1}); }
  void visit(nn::Visitor& v) override { v.parameter("weight", weight); }
};

/// Batch norm that only learns offsets. Its averages follow the last few batches.
nn::BatchNorm2d norm(std::int64_t channels) {
  return nn::BatchNorm2d(channels, {.eps = 1e-12, .momentum = 0.4});
}

struct Group : nn::Module {
  Conv conv1, conv2;
  nn::BatchNorm2d norm1, norm2;

  Group(std::int64_t inputs, std::int64_t outputs)
      : conv1(inputs, outputs),
        conv2(outputs, outputs),
        norm1(norm(outputs)),
        norm2(norm(outputs)) {}
  Tensor forward(const Tensor& x) override {
    const Tensor half = gelu(norm1(max_pool2d(conv1(x), 2)));
    return gelu(norm2(conv2(half)));
  }
  void visit(nn::Visitor& v) override {
    v.child("conv1", conv1);
    v.child("norm1", norm1);
    v.child("conv2", conv2);
    v.child("norm2", norm2);
  }
};

struct Net : nn::Module {
  Tensor whiten, offset;  // (24, 3, 2, 2), (24)
  Group group1{24, 64}, group2{64, 256}, group3{256, 256};
  nn::Linear head{256, 10, {.bias = false}};

  explicit Net(const Tensor& images) : whiten(whitening(images)), offset(rd::zeros({24})) {
    const rd::NoGradGuard no_grad;
    head.weight.div_(rd::std(head.weight));
    nn::freeze(*this, "*norm?.weight");
  }
  /// Principal components v of the windows of 2 x 2 pixels: v / √(variance + ε), and the negative.
  static Tensor whitening(const Tensor& images) {
    const Tensor columns = unfold(images, 2).transpose(1, 2).reshape({-1, 12});  // a window a row
    const Tensor covariance = matmul(columns.t(), columns) / static_cast<double>(columns.size(0));
    const rd::linalg::Eigen found = rd::linalg::eigh(covariance);
    const Tensor rows = found.vectors.t() / sqrt(found.values + 5e-4).unsqueeze(1);
    return rd::cat({rows, -rows}, 0).view({24, 3, 2, 2});
  }
  Tensor forward(const Tensor& x) override {
    const Tensor first = gelu(conv2d(x, whiten, offset));
    const Tensor last = max_pool2d(group3(group2(group1(first))), 3).flatten(1);
    return head(last) / 256.0;
  }
  void visit(nn::Visitor& v) override {
    v.buffer("whiten", whiten);
    v.parameter("offset", offset);
    v.child("group1", group1);
    v.child("group2", group2);
    v.child("group3", group3);
    v.child("head", head);
  }
};

// ---- Training

class Run {
 public:
  Run(const Settings& settings, const Images& train, const Images& test)
      : s(settings), device(rd::Device::parse(s.device)), train_(train), test_(test) {
    if (!s.amp.empty()) amp = rd::parse_dtype(s.amp);
  }

  /// The accuracy on the test images, in percent.
  double operator()(std::int64_t seed) {
    rd::manual_seed(static_cast<std::uint64_t>(seed));
    const std::int64_t sample = std::min<std::int64_t>(5000, train_.padded.size(0));
    Net net(train_.padded.narrow(0, 0, sample)
                .narrow(1, margin, side)
                .narrow(2, margin, side)
                .permute({0, 3, 1, 2})
                .cpu());
    net.to(device);
    train(net);
    return accuracy(net);
  }

 private:
  void train(Net& net) {
    const std::int64_t n = train_.padded.size(0), per_epoch = n / s.batch;
    const auto steps = static_cast<std::int64_t>(std::ceil(s.epochs * double(per_epoch)));
    optim::Muon muon(nn::parameters_like(net, "*conv?.weight"),
                     {.lr = 0.24, .weight_decay = 0, .momentum = 0.6, .ns_steps = 3});
    const double decay = 2e-6 * double(s.batch);
    const auto like_sgd = [&](double lr) {
      return optim::SgdOptions{
          .lr = lr, .momentum = 0.85, .weight_decay = decay / lr, .nesterov = true};
    };
    optim::SGD sgd({{nn::parameters_like(net, "*norm?.bias"), like_sgd(0.053)},
                    {{net.offset}, like_sgd(0.053)},
                    {{net.head.weight}, like_sgd(0.67)}});
    optim::PolynomialLR muon_rate(muon, {.total_iters = steps}),
        sgd_rate(sgd, {.total_iters = steps});

    const Tensor mirrored = lt(rd::rand({n}), 0.5).to(device);  // in the first epoch
    Tensor order;
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t epoch = step / per_epoch, at = step % per_epoch;
      if (at == 0) order = rd::randperm(n).to(device);
      if (epoch == 3) net.offset.requires_grad_(false);  // the first layer is done
      const Tensor rows = order.narrow(0, at * s.batch, s.batch);
      const Tensor shift =
          rd::randint(0, 2 * margin + 1, {2, s.batch}, {.dtype = rd::i64}).to(device);
      const Tensor flip = mirrored.index_select(0, rows);
      const Tensor images = windows(train_.padded, rows, shift[0], shift[1],
                                    epoch % 2 == 0 ? flip : logical_not(flip));
      Tensor loss;
      {
        const rd::AutocastIf scope(device, amp);
        loss = cross_entropy(net(images), train_.labels.index_select(0, rows),
                             {.reduction = rd::Reduction::sum, .label_smoothing = 0.2});
      }
      loss.backward();
      keep_length(muon.parameters());
      muon.step();
      sgd.step();
      muon.zero_grad();
      sgd.zero_grad();
      muon_rate.step();
      sgd_rate.step();
      if (at == per_epoch - 1 || step == steps - 1)
        std::printf("  epoch %ld: loss of the last batch %.4f\n", epoch + 1,
                    loss.item() / static_cast<double>(s.batch));
      std::fflush(stdout);
    }
  }

  /// Scales each matrix to the length √rows.
  static void keep_length(const rd::Tensors& matrices) {
    const rd::NoGradGuard no_grad;
    for (const Tensor& w : matrices)
      w.mul_(std::sqrt(static_cast<double>(w.size(0))) / rd::norm(w));
  }

  double accuracy(Net& net) {
    const rd::NoGradGuard no_grad;
    const rd::AutocastIf scope(device, amp);
    net.eval();
    std::int64_t right = 0;
    const std::int64_t n = test_.padded.size(0), batch = 500;
    for (std::int64_t at = 0; at < n; at += batch) {
      const Tensor rows = rd::arange(at, std::min(at + batch, n)).to(device);
      Tensor logits = rd::zeros({rows.size(0), 10}, {.device = device});
      for (const auto& [begin, weight] :
           {std::pair{margin, 0.25}, {margin - 1, 0.125}, {margin + 1, 0.125}})
        for (const bool mirrored : {false, true}) {
          const Tensor from = rd::full({1}, begin, {.dtype = rd::i64, .device = device});
          const Tensor images =
              windows(test_.padded, rows, from, from,
                      rd::full({1}, mirrored, {.dtype = rd::boolean, .device = device}));
          logits += net(images).to(rd::f32) * weight;
        }
      right += eq(logits.argmax(1), test_.labels.index_select(0, rows)).sum().item<std::int64_t>();
    }
    return 100.0 * static_cast<double>(right) / static_cast<double>(n);
  }

  const Settings& s;
  rd::Device device;
  std::optional<rd::DType> amp;
  const Images &train_, &test_;
};

int run(const Settings& s) {
  const Images train = read(s, rd::data::Split::train, s.limit),
               test = read(s, rd::data::Split::test, s.test_limit);
  const std::int64_t images = train.padded.size(0);
  rd::require(s.batch <= images, "--batch: ", s.batch, " is above the number of training images, ",
              images);
  Run once(s, train, test);
  double sum = 0, sum_of_minutes = 0;
  for (std::int64_t i = 0; i < s.runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const double accuracy = once(s.seed + i);
    const std::chrono::duration<double, std::ratio<60>> minutes =
        std::chrono::steady_clock::now() - start;
    std::printf("seed %ld: %.2f %% after %.2f minutes\n", s.seed + i, accuracy, minutes.count());
    std::fflush(stdout);
    sum += accuracy;
    sum_of_minutes += minutes.count();
  }
  const auto runs = static_cast<double>(s.runs);
  std::printf("mean of %ld: %.2f %% after %.2f minutes\n", s.runs, sum / runs,
              sum_of_minutes / runs);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rd::flags;
  Settings s;
  CommandLine app("Trains a network on CIFAR-10 to about 94 % in as few minutes as possible");
  app.add("--runs", s.runs, "runs with different seeds", whole_number(1, 1000));
  app.add("--seed", s.seed, "seed of the first run", whole_number(0, ~std::uint64_t{0} / 4));
  app.add("--epochs", s.epochs, "passes over the training images", positive());
  app.add("--batch", s.batch, "images in a step", whole_number(1, 50'000));
  app.add("--limit", s.limit, "use only the first training images", whole_number(1, 50'000));
  app.add("--test-limit", s.test_limit, "use only the first test images", whole_number(1, 10'000));
  app.add("--amp", s.amp, "bf16: the dtype of matrix products", one_of({"bf16"}));
  app.add("--device", s.device, "cpu, cuda or cuda:N");
  app.add("--data", s.data, "folder with CIFAR-10; if not set, as for cifar_resnet");
  if (auto status = app.parse(argc, argv)) return *status;
  return rd::dist::run([&] { return run(s); });  // an exception becomes an error message
}
