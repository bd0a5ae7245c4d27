// Twelve points of the circle as batches of a loader with 0, 1 and 3 workers, and of one that
// resumes. Begin with main and flip; below is how the points are made and shown.
#include <rondo/rondo.h>

#include <iostream>

namespace rd = rondo;
namespace data = rondo::data;
using rondo::Tensor;

namespace {
constexpr std::uint64_t seed = 1;
data::Batch flip(data::Batch batch, const data::BatchContext& context);
std::shared_ptr<data::TensorDataset> points();
void show_epoch(data::DataLoader& loader);
}  // namespace

int main() {
  for (const int workers : {0, 1, 3}) {
    std::cout << workers << " workers\n";
    data::DataLoader loader(
        points(), {.batch_size = 4, .shuffle = true, .seed = seed, .workers = workers}, flip);
    show_epoch(loader);
    show_epoch(loader);
  }
  std::cout << "3 workers, from epoch 1, batch 1\n";
  data::DataLoader loader(points(), {.batch_size = 4, .shuffle = true, .seed = seed, .workers = 3},
                          flip);
  loader.set_position({.epoch = 1, .batch = 1});
  show_epoch(loader);
}

namespace {

/// Random flips: a point may change the sign of each coordinate. The circle stays the same.
data::Batch flip(data::Batch batch, const data::BatchContext& context) {
  const rd::Philox random{seed, data::augmentation_streams + context.draw.epoch};
  for (std::size_t row = 0; row < context.indices.size(); ++row) {
    const auto words = random.block(static_cast<std::uint64_t>(context.indices[row]));
    for (std::int64_t axis = 0; axis < 2; ++axis)
      if (words[static_cast<std::size_t>(axis)] % 2 == 1)
        batch.input[static_cast<std::int64_t>(row)][axis].mul_(-1.0);
  }
  return batch;
}

/// The first points of README's twenty lines, and whether they lie in the circle.
std::shared_ptr<data::TensorDataset> points() {
  rd::manual_seed(seed);
  Tensor x = (rd::rand({1000, 2}) * 2.0 - 1.0).narrow(0, 0, 12);
  return std::make_shared<data::TensorDataset>(x, lt(sum(square(x), {1}), 0.6).to(rd::i64));
}

/// For each batch of an epoch: the indices of its points, and the signs that the flips gave them.
void show_epoch(data::DataLoader& loader) {
  const Tensor original = points()->inputs();
  for (auto it = loader.begin(); it != loader.end(); ++it) {
    std::cout << "  [";
    for (std::int64_t row = 0; row < std::ssize(it.indices()); ++row) {
      const std::int64_t index = it.indices()[static_cast<std::size_t>(row)];
      std::cout << " " << index;
      for (const std::int64_t same :
           eq(it->input[row], original[index]).to(rd::i64).to_vector<std::int64_t>())
        std::cout << (same == 1 ? '+' : '-');
    }
    std::cout << " ]";
  }
  std::cout << "\n";
}

}  // namespace
