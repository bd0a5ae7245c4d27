// A siamese network: one network looks at both images of a pair, and decides whether they show the
// same class.
//
//   build/bin/ports/siamese_network [--dataset fashion_mnist]

#include <rondo/rondo.h>

#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

/// Pairs of images (2, 1, H, W). Those of even number have one class and the target 1; the others
/// have two classes and the target 0.
struct Pairs : rd::data::SampleDataset {
  std::shared_ptr<rd::data::ImageDataset> images;
  std::vector<std::vector<std::int64_t>> of_class;
  std::uint64_t seed = 0;

  Pairs(std::shared_ptr<rd::data::ImageDataset> all, std::uint64_t seed)
      : images(std::move(all)),
        of_class(static_cast<std::size_t>(images->num_classes())),
        seed(seed) {
    const auto labels = images->labels().to_vector<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i)
      of_class[static_cast<std::size_t>(labels[i])].push_back(static_cast<std::int64_t>(i));
    std::erase_if(of_class, [](const auto& members) { return members.empty(); });
    rd::require(of_class.size() >= 2, "pairs need images of at least two classes");
  }
  std::int64_t size() const override { return images->size(); }
  rd::data::Sample get(std::int64_t index) const override { return get_epoch_sample(0, index); }
  rd::data::Sample get_epoch_sample(std::uint64_t stream, std::int64_t index) const override {
    const rd::Philox philox{.seed = seed, .stream = stream};
    std::uint64_t next = static_cast<std::uint64_t>(index) * 8;
    const auto below = [&](std::size_t n) { return rd::uniform_below(philox.word64(next++), n); };
    const auto of = [&](std::size_t c) { return of_class[c][below(of_class[c].size())]; };
    const std::size_t first = below(of_class.size()),
                      second = index % 2 == 0
                                   ? first
                                   : (first + 1 + below(of_class.size() - 1)) % of_class.size();
    const Tensor& bytes = images->images();
    const Tensor pair = rd::stack({bytes[of(first)], bytes[of(second)]}).to(rd::f32) / 255.0;
    return {pair, rd::scalar(index % 2 == 0 ? 1.0 : 0.0, {.dtype = rd::f32})};
  }
};

struct SiameseNetwork : nn::Module {
  nn::Sequential look{nn::Conv2d(1, 32, 3, {.padding = 1}),
                      nn::BatchNorm2d(32),
                      nn::ReLU(),
                      nn::MaxPool2d(2),
                      nn::Conv2d(32, 64, 3, {.padding = 1}),
                      nn::BatchNorm2d(64),
                      nn::ReLU(),
                      nn::AdaptiveAvgPool2d(2),
                      nn::Flatten()};
  nn::Sequential compare{nn::Linear(2 * 256, 256), nn::ReLU(), nn::Linear(256, 1)};

  /// The logit of "the same class" for each pair of x (N, 2, 1, H, W).
  Tensor forward(const Tensor& x) override {
    const Tensor both = look(x.flatten(0, 1)).reshape({x.size(0), -1});
    return compare(both).squeeze(1);
  }
  void visit(nn::Visitor& v) override {
    v.child("look", look);
    v.child("compare", compare);
  }
};

int run(int argc, char** argv) {
  std::string dataset = "mnist";
  int epochs = 14;
  std::int64_t batch = 64, limit = 0;
  double lr = 1, gamma = 0.7;
  rd::flags::CommandLine line("Decides whether two images show the same class.");
  line.add("--dataset", dataset, "the images", rd::flags::one_of({"mnist", "fashion_mnist"}));
  line.add("--epochs", epochs, "passes over the data", rd::flags::count());
  line.add("--batch", batch, "pairs in a step", rd::flags::count());
  line.add("--limit", limit, "use only so many images; 0: all",
           rd::flags::whole_number(0, 1'000'000'000));
  line.add("--lr", lr, "learning rate", rd::flags::positive());
  line.add("--gamma", gamma, "factor of the learning rate after each epoch");
  if (const auto status = line.parse(argc, argv)) return *status;

  rd::manual_seed(1);
  const auto pairs = [&](rd::data::Split split) {
    return std::make_shared<Pairs>(
        rd::data::open_dataset(dataset, split,
                               {.limit = limit > 0 ? std::optional(limit) : std::nullopt}),
        1);
  };
  SiameseNetwork net;
  optim::Adadelta adadelta(net.parameters(), {.lr = lr});
  const auto test_pairs = pairs(rd::data::Split::test);
  const rd::train::Metric accuracy = {"accuracy of pairs",
                                      [](const Tensor& y, const Tensor& target) {
                                        return eq(gt(y, 0).to(rd::f32), target).to(rd::f32).mean();
                                      }};
  rd::train::Trainer trainer(
      net, adadelta,
      {.epochs = epochs,
       .batch_size = batch,
       .schedule =
           [&](optim::Optimizer& optimizer, std::int64_t steps) {
             return std::make_unique<optim::StepLR>(
                 optimizer, optim::StepLROptions{.step_size = steps / epochs, .gamma = gamma});
           },
       .fit = {.criterion = [](const Tensor& y,
                               const Tensor& target) { return bce_with_logits(y, target); },
               .metrics = {accuracy}}});
  trainer.fit(pairs(rd::data::Split::train), test_pairs);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
