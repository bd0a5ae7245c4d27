// 02_resnet: trains a ResNet-20 on CIFAR-10. The whole loop, on one rank or on several:
//
//   build/bin/02_resnet
//   mpirun -np 2 build/bin/02_resnet --epochs 3
//
// The program cifar_resnet does the same and has everything else that a real run needs:
// checkpoints, metrics, 16-bit types, GPUs. Read next: dist/README.md, which follows a gradient
// from backward() to the other ranks.

#include <rondo/rondo.h>

#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace data = rondo::data;

int main(int argc, char** argv) {
  std::int64_t epochs = 3, limit = 50'000, batch = 128;
  rd::flags::CommandLine app("Trains a ResNet-20 on CIFAR-10, on one rank or several");
  app.add("--epochs", epochs, "passes over the training images", rd::flags::whole_number(1, 1000));
  app.add("--limit", limit, "use only the first images", rd::flags::whole_number(1, 50'000));
  app.add("--batch", batch, "images in a step, of all ranks", rd::flags::whole_number(1, 50'000));
  if (auto status = app.parse(argc, argv)) return *status;

  return rd::dist::run([&] {  // an exception on one rank ends all ranks with one error message
    auto comm = rd::dist::init();
    rd::dist::use_threads(*comm);  // the ranks of one machine share its cores
    rd::manual_seed(1);
    rd::require(batch % comm->world_size() == 0, "--batch ", batch, " is not divisible by the ",
                comm->world_size(), " ranks");

    // Data: each rank gets its own part of every epoch, in a new order each time.
    const data::ImageStatistics known = data::statistics_of("cifar10");
    const data::Normalize normalize{known.mean, known.std};
    auto train = data::open_dataset("cifar10", data::Split::train, {.limit = limit});
    auto test = data::open_dataset("cifar10", data::Split::test, {.limit = limit});
    const data::ImageTransform augment(
        {data::RandomCrop{32, 32, 4}, data::RandomHorizontalFlip{}, data::ToFloat{}, normalize},
        {.seed = 1});
    const data::ImageTransform plain({data::ToFloat{}, normalize});
    auto sampler = std::make_shared<data::DistributedSampler>(
        train->size(), data::DistributedSamplerOptions{
                           .rank = comm->rank(), .world_size = comm->world_size(), .seed = 1});
    data::DataLoader loader(train, sampler,
                            {.batch_size = batch / comm->world_size(), .workers = 1}, augment);

    // Model, optimizer, learning rate.
    rd::nn::CifarResNet net({.depth = 20});
    rd::dist::DistributedDataParallel ddp(net, comm);  // all ranks start with rank 0's weights
    rd::optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
    rd::optim::OneCycleLR schedule(sgd, {.max_lr = 0.2, .total_steps = epochs * loader.size()});

    for (std::int64_t epoch = 1; epoch <= epochs; ++epoch) {
      net.train();
      double loss_sum = 0;
      for (auto& [images, labels] : loader) {
        sgd.zero_grad();
        const rd::Tensor loss = cross_entropy(ddp(images), labels);
        loss.backward();  // averages the gradients over the ranks while it still computes
        sgd.step();
        schedule.step();
        loss_sum += loss.item();
      }
      const double accuracy =
          rd::train::evaluate(net, test, plain, *comm).accuracy();  // of all ranks
      if (comm->rank() == 0)
        std::printf("epoch %ld/%ld: loss %.4f, test accuracy %.2f %%\n", epoch, epochs,
                    loss_sum / static_cast<double>(loader.size()), 100 * accuracy);
    }
    return 0;
  });
}
