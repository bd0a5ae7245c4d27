#pragma once
// Image transforms: convert a batch of bytes to the network's input, in one pass.
//
//   ImageTransform augment({RandomCrop{32, 32, .padding = 4}, RandomHorizontalFlip{}, ToFloat{},
//                           Normalize{{0.491F, 0.482F, 0.447F}, {0.247F, 0.243F, 0.262F}}},
//                          {.seed = 1});
//
// reads as in torchvision, but the steps do not run one by one. The constructor folds them into a
// plan: geometry (where each output pixel comes from) and one table of 256 floats per channel (the
// output for each byte). Each output row is then written once: a run of looked-up bytes between two
// runs of padding. A byte has only 256 values, so the table is small, and it holds exactly the
// floats that torchvision's ToTensor and Normalize compute, on every CPU.
//
// Note [Augmentation is keyed by sample]: every choice is a function of (seed, epoch, index of the
// sample), through Philox. It does not depend on the worker, rank or batch that processes the
// sample, and resuming needs no state. A sample that padding repeats in an epoch looks the same
// both times. A sample that a sampler draws again (WeightedRandomSampler) looks different each
// time: the number of its earlier appearances is a function of the epoch, too (Draw,
// data/dataset.h).
//
// Read next: data/loader.h, which calls a transform on each batch.

#include <array>
#include <variant>
#include <vector>

#include "data/loader.h"

namespace rondo::data {

/// A height × width window at a uniformly random place of the image, which is first padded on all
/// sides (torchvision.transforms.RandomCrop(size, padding, fill)).
struct RandomCrop {
  std::int64_t height = 32, width = 32;
  std::int64_t padding = 0;
  std::uint8_t fill = 0;
};
/// Mirrors left and right with this probability.
struct RandomHorizontalFlip {
  double probability = 0.5;
};
/// byte / 255 as f32. Without it the output stays u8.
struct ToFloat {};
/// (x - mean[c]) / std[c]; one entry for each channel. Must come after ToFloat.
struct Normalize {
  std::vector<float> mean, std;
};
/// With this probability, sets a rectangle to 0, which is the mean after normalisation
/// (torchvision.transforms.RandomErasing with value 0; Zhong et al. 2017). Its share of the image's
/// area is uniform in `scale`, its aspect ratio log-uniform in `ratio`; up to ten tries to fit it
/// in.
struct RandomErasing {
  double probability = 0.5;
  std::array<double, 2> scale{0.02, 0.33};
  std::array<double, 2> ratio{0.3, 3.3};
};
/// Sets a square of this side around a uniformly random pixel to 0; parts outside the image are cut
/// off (DeVries and Taylor 2017).
struct Cutout {
  std::int64_t side = 8;
};

using ImageStep =
    std::variant<RandomCrop, RandomHorizontalFlip, ToFloat, Normalize, RandomErasing, Cutout>;

struct ImageTransformOptions {
  std::uint64_t seed = 0;
  /// The memory format of the output; its shape is (N, C, H, W) for both formats.
  MemoryFormat format = MemoryFormat::channels_last;
};

/// The random choices for one image. Rectangles are [top, bottom) × [left, right) of the output.
struct Augmentation {
  std::int64_t top = 0, left = 0;  // of the crop, in the padded image
  bool flip = false;
  struct Box {
    std::int64_t top = 0, left = 0, bottom = 0, right = 0;
    bool empty() const { return top >= bottom || left >= right; }
    bool operator==(const Box&) const = default;
  };
  Box erased, cut;
  bool operator==(const Augmentation&) const = default;
};

/// A Transform (data/loader.h) for u8 images (N, C, H, W); targets are passed through. Images on a
/// GPU stay there (data/resident.h), and the result is bit-identical.
class ImageTransform {
 public:
  /// The steps must be in the order of their declarations above, each at most once. Throws Error
  /// naming the step that is out of order or has an invalid argument.
  explicit ImageTransform(std::vector<ImageStep> steps, ImageTransformOptions options = {});
  /// Only ToFloat.
  ImageTransform();

  /// Throws ShapeError or DTypeError if the batch is not u8 (N, C, H, W), if Normalize has another
  /// number of channels, or if the crop is larger than the padded image.
  Batch operator()(Batch batch, const BatchContext& context) const;
  /// The same for images without targets: row k is sample indices[k].
  Tensor apply(const Tensor& images, std::span<const std::int64_t> indices,
               const Draw& draws = {}) const;

  /// The choices for sample `index` of an epoch (or Draw::stream), for images of this size.
  Augmentation draw(std::uint64_t epoch, std::int64_t index, std::int64_t height,
                    std::int64_t width) const;

 private:
  template <class T>
  void run(const Tensor& images, std::span<const std::int64_t> indices, const Draw& draws,
           const Tensor& out) const;
  void check(const Tensor& images, std::span<const std::int64_t> indices) const;
  std::vector<float> float_table(std::int64_t channels) const;

  ImageTransformOptions options_;
  std::vector<ImageStep> steps_;
};

}  // namespace rondo::data
