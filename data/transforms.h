#pragma once
// Image transforms: a batch of bytes becomes what the network reads, in one pass.
//
//   ImageTransform augment({RandomCrop{32, 32, .padding = 4}, RandomHorizontalFlip{}, ToFloat{},
//                           Normalize{{0.491F, 0.482F, 0.447F}, {0.247F, 0.243F, 0.262F}}},
//                          {.seed = 1});
//
// reads as in torchvision, but the list is not run step by step. The constructor folds it into a
// plan: geometry (where each output pixel comes from) and one table of 256 floats a channel (what a
// byte becomes). Each output row is then written once: a run of looked-up bytes between two runs of
// padding. A byte has only 256 values, so the table costs nothing, and it holds exactly the floats
// that torchvision's ToTensor and Normalize compute, on every CPU.
//
// Note [Augmentation is keyed by sample]: every choice is a function of (seed, epoch, index of the
// sample), through Philox. It does not depend on which worker, rank or batch a sample falls into;
// resuming needs no state; and a sample that padding shows twice in an epoch looks the same twice.
// One that a sampler draws again (WeightedRandomSampler) looks different each time: how many times
// it came before is a function of the epoch, too (Draw, data/dataset.h).
//
// Read next: data/loader.h, which calls a transform on each batch.

#include <array>
#include <optional>
#include <variant>
#include <vector>

#include "data/loader.h"

namespace rondo::data {

/// A height × width window at a uniformly random place of the image padded on all sides
/// (torchvision.transforms.RandomCrop(size, padding, fill)).
struct RandomCrop {
  std::int64_t height = 32, width = 32;
  std::int64_t padding = 0;
  std::uint8_t fill = 0;
};
/// Left and right change sides with this probability.
struct RandomHorizontalFlip {
  double probability = 0.5;
};
/// byte / 255 as f32. Without it the output stays u8.
struct ToFloat {};
/// (x - mean[c]) / std[c]; one entry for each channel. After ToFloat.
struct Normalize {
  std::vector<float> mean, std;
};
/// Zeroes (after normalisation: the mean) a rectangle with this probability
/// (torchvision.transforms.RandomErasing with value 0; Zhong et al. 2017): area uniform in `scale`
/// of the image's, aspect ratio log-uniform in `ratio`, up to ten tries to fit one in.
struct RandomErasing {
  double probability = 0.5;
  std::array<double, 2> scale{0.02, 0.33};
  std::array<double, 2> ratio{0.3, 3.3};
};
/// Zeroes a square of this side around a uniformly random pixel, as far as it lies in the image
/// (DeVries and Taylor 2017).
struct Cutout {
  std::int64_t side = 8;
};

using ImageStep =
    std::variant<RandomCrop, RandomHorizontalFlip, ToFloat, Normalize, RandomErasing, Cutout>;

struct ImageTransformOptions {
  std::uint64_t seed = 0;
  /// Of the output; logical shape is (N, C, H, W) either way.
  MemoryFormat format = MemoryFormat::channels_last;
};

/// What was drawn for one image. Rectangles are [top, bottom) × [left, right) of the output.
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

/// A Transform (data/loader.h) for u8 images (N, C, H, W); targets pass through. Images on a GPU
/// stay there (data/resident.h) and become the same bits.
class ImageTransform {
 public:
  /// Steps in the order of their declarations above, each at most once. Throws Error naming the
  /// step that is out of order or has an impossible argument.
  explicit ImageTransform(std::vector<ImageStep> steps, ImageTransformOptions options = {});
  /// ToFloat alone.
  ImageTransform();

  /// Throws ShapeError or DTypeError when the batch is not one of bytes (N, C, H, W), Normalize has
  /// another number of channels, or the crop does not fit into the padded image.
  Batch operator()(Batch batch, const BatchContext& context) const;
  /// The images alone: row k is sample indices[k].
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
  std::optional<RandomCrop> crop_;
  std::optional<RandomHorizontalFlip> flip_;
  std::optional<ToFloat> to_float_;
  std::optional<Normalize> normalize_;
  std::optional<RandomErasing> erasing_;
  std::optional<Cutout> cutout_;
};

}  // namespace rondo::data
