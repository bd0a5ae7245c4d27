#pragma once
// ImagePipeline: from a decoded picture of any size to what the network reads.
//
//   ImagePipeline augment({RandomResizedCrop{224, 224}, RandomHorizontalFlip{},
//                          ColorJitter{.brightness = 0.4}, ToFloat{}, Normalize{mean, std}},
//                         {.seed = 1});
//   ImagePipeline plain({Resize{256}, CenterCrop{224, 224}, ToFloat{}, Normalize{mean, std}});
//
// reads and means what torchvision.transforms.Compose does: the steps run one after another, on
// bytes, and ToFloat and Normalize come last, as one table of 256 floats a channel. Its fellow
// ImageTransform (data/transforms.h) folds its steps into a single pass, which it can since all of
// its images have one size.
//
// What is random is keyed by sample, as Note [Augmentation is keyed by sample] has it; step k of
// sample i in epoch e draws from blocks 256 i + 16 k … of Philox stream (seed, picture_streams +
// e).
//
// Read next: data/image_folder.h, which has the pictures.

#include <array>
#include <variant>
#include <vector>

#include "data/image_ops.h"
#include "data/transforms.h"

namespace rondo::data {

/// The shorter side becomes `height` pixels long where width is 0; else exactly height × width.
struct Resize {
  std::int64_t height = 256, width = 0;
};
/// The middle, with black around pictures that are smaller.
struct CenterCrop {
  std::int64_t height = 224, width = 224;
};
/// A window of random area (a share of the picture's in `scale`, uniform) and shape (width over
/// height in `ratio`, log-uniform) at a random place, scaled to height × width; after ten that do
/// not fit, the largest in the middle that `ratio` allows
/// (torchvision.transforms.RandomResizedCrop).
struct RandomResizedCrop {
  std::int64_t height = 224, width = 224;
  std::array<double, 2> scale{0.08, 1.0};
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};
};
/// Brightness, contrast and saturation times a factor uniform in [max(0, 1 - x), 1 + x], hue turned
/// by one in [-x, x], x the number given here, in random order; those that are 0 are left out
/// (torchvision.transforms.ColorJitter).
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

using PictureStep = std::variant<Resize, CenterCrop, RandomResizedCrop, RandomHorizontalFlip,
                                 ColorJitter, ToFloat, Normalize>;

/// What ColorJitter draws: the factors, and the order of the four (0 brightness, 1 contrast,
/// 2 saturation, 3 hue).
struct Jitter {
  std::array<double, 4> factors{1, 1, 1, 0};
  std::array<int, 4> order{0, 1, 2, 3};
  bool operator==(const Jitter&) const = default;
};

class ImagePipeline {
 public:
  /// Up to 16 steps in any order, but ToFloat and then Normalize at the end. Throws Error naming
  /// the step that is out of order or has an impossible argument. The options are ImageTransform's;
  /// without ToFloat, `format` is left alone and bytes come as planes, which ImageTransform reads.
  explicit ImagePipeline(std::vector<PictureStep> steps, ImageTransformOptions options = {});
  /// No steps: pictures stay as they are.
  ImagePipeline();

  /// The steps on bytes, for sample `index` of `epoch` (or Draw::stream): u8 (H, W, 3) in and out.
  /// Throws ShapeError or DTypeError for other pictures.
  Tensor apply(Tensor picture, std::int64_t index, std::uint64_t epoch = 0) const;
  /// ToFloat and Normalize: pictures of one size as (N, 3, H, W), f32, or u8 without ToFloat.
  /// Throws ShapeError naming the first of another size.
  Tensor stack(const std::vector<Tensor>& pictures) const;

  /// The choices of step `step` for this sample.
  Window draw_window(const RandomResizedCrop& crop, std::size_t step, std::int64_t index,
                     std::uint64_t epoch, std::int64_t height, std::int64_t width) const;
  Jitter draw_jitter(const ColorJitter& jitter, std::size_t step, std::int64_t index,
                     std::uint64_t epoch) const;

 private:
  std::vector<PictureStep> steps_;
  ImageTransformOptions options_;
  bool to_float_ = false;
  std::vector<float> table_;  // what each byte of each of the three channels becomes
};

}  // namespace rondo::data
