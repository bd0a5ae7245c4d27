// Each step draws from its own blocks, so its results do not depend on the steps after it or on the
// worker.

#include "data/image_pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/image_checks.h"
#include "tensor/random.h"

namespace rondo::data {
namespace {

constexpr std::uint64_t blocks_per_step = 16, max_steps = 16;

/// The first block from which step `step` of sample `index` draws.
std::uint64_t first_block(std::int64_t index, std::size_t step) {
  return (static_cast<std::uint64_t>(index) * max_steps + step) * blocks_per_step;
}

/// An integer in [0, range).
std::int64_t drawn_below(std::uint32_t word, std::int64_t range) {
  return static_cast<std::int64_t>(
      uniform_below(std::uint64_t{word} << 32, static_cast<std::uint64_t>(range)));
}

/// The largest distance of each factor from 1 (hue: from 0), in the order of Jitter.
std::array<double, 4> strengths(const ColorJitter& jitter) {
  return {jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue};
}

void check_picture_step(const Resize& resize) {
  require(resize.height > 0 && resize.width >= 0, "Resize: to ", resize.height, " x ", resize.width,
          ", but the sides must be positive (a width of 0 keeps the ratio)");
}
void check_picture_step(const CenterCrop& crop) {
  require(crop.height > 0 && crop.width > 0, "CenterCrop: to ", crop.height, " x ", crop.width,
          ", but both sides must be positive");
}
void check_picture_step(const RandomResizedCrop& crop) {
  require(crop.height > 0 && crop.width > 0, "RandomResizedCrop: to ", crop.height, " x ",
          crop.width, ", but both sides must be positive");
  require(crop.scale[0] > 0 && crop.scale[0] <= crop.scale[1] && crop.scale[1] <= 1,
          "RandomResizedCrop: scale from ", crop.scale[0], " to ", crop.scale[1],
          " is not a range in (0, 1]");
  require(crop.ratio[0] > 0 && crop.ratio[0] <= crop.ratio[1] && std::isfinite(crop.ratio[1]),
          "RandomResizedCrop: ratio from ", crop.ratio[0], " to ", crop.ratio[1],
          " is not a range above 0");
}
void check_picture_step(const RandomHorizontalFlip& flip) {
  require(flip.probability >= 0 && flip.probability <= 1, "RandomHorizontalFlip: probability ",
          flip.probability, " is not in [0, 1]");
}
void check_picture_step(const ColorJitter& jitter) {
  for (const double strength : strengths(jitter))
    require(std::isfinite(strength) && strength >= 0, "ColorJitter: a strength of ", strength,
            ", but it must be finite and not negative");
  require(jitter.hue <= 0.5, "ColorJitter: a hue of ", jitter.hue, " is more than half a turn",
          ": it must be at most 0.5");
}
void check_picture_step(const ToFloat&) {}
void check_picture_step(const Normalize& normalize) {
  require(normalize.mean.size() == 3 && normalize.std.size() == 3,
          "Normalize: ", normalize.mean.size(), " means and ", normalize.std.size(),
          " standard deviations, but pictures have 3 channels");
  for (std::size_t c = 0; c < 3; ++c) {
    require(
        std::isfinite(normalize.mean[c]) && std::isfinite(normalize.std[c]) && normalize.std[c] > 0,
        "Normalize: mean ", normalize.mean[c], " and standard deviation ", normalize.std[c],
        " of channel ", c, "; both must be finite, and the standard deviation positive");
  }
}

/// The float operations of ToTensor and Normalize, in their order and precision.
std::vector<float> make_table(const Normalize* normalize) {
  std::vector<float> table(std::size_t{3} * 256);
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<float>(i % 256) / 255.0F;
    if (normalize != nullptr)
      table[i] = (table[i] - normalize->mean[i / 256]) / normalize->std[i / 256];
  }
  return table;
}

Tensor jittered(Tensor picture, const Jitter& drawn, const std::array<double, 4>& strength) {
  using Adjust = Tensor (*)(const Tensor&, double);
  static constexpr std::array<Adjust, 4> adjust{adjust_brightness, adjust_contrast,
                                                adjust_saturation, adjust_hue};
  for (const int which : drawn.order) {
    const auto w = static_cast<std::size_t>(which);
    if (strength[w] > 0) picture = adjust[w](picture, drawn.factors[w]);
  }
  return picture;
}

}  // namespace

ImagePipeline::ImagePipeline() : ImagePipeline(std::vector<PictureStep>()) {}

ImagePipeline::ImagePipeline(std::vector<PictureStep> steps, ImageTransformOptions options)
    : options_(options) {
  require(steps.size() <= max_steps, "ImagePipeline: ", steps.size(), " steps, more than ",
          max_steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::visit([](const auto& step) { check_picture_step(step); }, steps[i]);
    const auto* normalize = std::get_if<Normalize>(&steps[i]);
    require(!to_float_ || (normalize != nullptr && std::holds_alternative<ToFloat>(steps[i - 1])),
            "ImagePipeline: step ", i, " comes after ToFloat, where only Normalize may be");
    require(to_float_ || normalize == nullptr, "ImagePipeline: Normalize needs ToFloat before it");
    if (to_float_ || std::holds_alternative<ToFloat>(steps[i])) table_ = make_table(normalize);
    to_float_ = !table_.empty();
  }
  steps_ = std::make_shared<const std::vector<PictureStep>>(std::move(steps));
}

Window ImagePipeline::draw_window(const RandomResizedCrop& crop, std::size_t step,
                                  std::int64_t index, std::uint64_t epoch, std::int64_t height,
                                  std::int64_t width) const {
  const Philox random{options_.seed, picture_streams + epoch};
  const double low = std::log(crop.ratio[0]), high = std::log(crop.ratio[1]);
  for (std::uint64_t t = 0; t < 10; ++t) {
    const auto words = random.block(first_block(index, step) + t);
    const double share = std::lerp(crop.scale[0], crop.scale[1], uniform_float(words[0]));
    const double area = share * static_cast<double>(height * width);
    const double ratio = std::exp(std::lerp(low, high, uniform_float(words[1])));
    const std::int64_t w = std::llrint(std::sqrt(area * ratio));
    const std::int64_t h = std::llrint(std::sqrt(area / ratio));
    if (w <= 0 || w > width || h <= 0 || h > height) continue;
    return {drawn_below(words[2], height - h + 1), drawn_below(words[3], width - w + 1), h, w};
  }
  // No try fitted, because the picture is too flat or too tall.
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  std::int64_t h = height, w = width;
  if (ratio < crop.ratio[0])
    h = std::llrint(static_cast<double>(w) / crop.ratio[0]);
  else if (ratio > crop.ratio[1])
    w = std::llrint(static_cast<double>(h) * crop.ratio[1]);
  h = std::clamp<std::int64_t>(h, 1, height);
  w = std::clamp<std::int64_t>(w, 1, width);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

Jitter ImagePipeline::draw_jitter(const ColorJitter& jitter, std::size_t step, std::int64_t index,
                                  std::uint64_t epoch) const {
  const Philox random{options_.seed, picture_streams + epoch};
  const auto factors = random.block(first_block(index, step));
  const auto order = random.block(first_block(index, step) + 1);
  const auto strength = strengths(jitter);
  Jitter drawn;
  for (std::size_t i = 0; i < 4; ++i) {
    const bool hue = i == 3;
    const double low = hue ? -strength[i] : std::max(0.0, 1 - strength[i]);
    const double high = hue ? strength[i] : 1 + strength[i];
    drawn.factors[i] = std::lerp(low, high, uniform_float(factors[i]));
    std::swap(drawn.order[3 - i], drawn.order[static_cast<std::size_t>(
                                      drawn_below(order[i], 4 - static_cast<std::int64_t>(i)))]);
  }
  return drawn;
}

Tensor ImagePipeline::apply(Tensor picture, std::int64_t index, std::uint64_t epoch) const {
  check_image(picture, "ImagePipeline");
  const Philox random{options_.seed, picture_streams + epoch};
  require(steps_ != nullptr, "ImagePipeline: it was moved from");
  const std::vector<PictureStep>& steps = *steps_;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    if (const auto* to = std::get_if<Resize>(&steps[k])) {
      picture = to->width == 0 ? resize_shorter(picture, to->height)
                               : resize(picture, to->height, to->width);
    } else if (const auto* middle = std::get_if<CenterCrop>(&steps[k])) {
      picture = center_crop(picture, middle->height, middle->width);
    } else if (const auto* crop = std::get_if<RandomResizedCrop>(&steps[k])) {
      const Window window = draw_window(*crop, k, index, epoch, picture.size(0), picture.size(1));
      picture = resize(picture, window, crop->height, crop->width);
    } else if (const auto* flip = std::get_if<RandomHorizontalFlip>(&steps[k])) {
      if (uniform_float(random.block(first_block(index, k))[0]) < flip->probability)
        picture = horizontal_flip(picture);
    } else if (const auto* jitter = std::get_if<ColorJitter>(&steps[k])) {
      picture = jittered(picture, draw_jitter(*jitter, k, index, epoch), strengths(*jitter));
    }
  }
  return picture;
}

Tensor ImagePipeline::stack(const std::vector<Tensor>& pictures) const {
  const std::int64_t height = pictures.empty() ? 0 : pictures[0].size(0);
  const std::int64_t width = pictures.empty() ? 0 : pictures[0].size(1);
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    check_image(pictures[i], "ImagePipeline");
    require<ShapeError>(pictures[i].shape() == pictures[0].shape(), "picture ", i,
                        " of the batch is ", pictures[i].shape(), ", but the first is ",
                        pictures[0].shape(),
                        "; end with CenterCrop, RandomResizedCrop or a Resize of two sides");
  }
  const MemoryFormat format = to_float_ ? options_.format : MemoryFormat::contiguous;
  const Tensor out = Tensor::empty({std::ssize(pictures), 3, height, width},
                                   {.dtype = to_float_ ? f32 : u8, .format = format});
  const bool interleaved = format == MemoryFormat::channels_last;
  // The position of element (c, p) of a picture, p being the index of the pixel.
  const std::int64_t pixels = height * width;
  const std::int64_t step = interleaved ? 3 : 1, plane = interleaved ? 1 : pixels;
  const auto paint = [&](auto* to, const auto& become) {
    for (const Tensor& picture : pictures) {
      const auto* from = picture.data_ptr<std::uint8_t>();
      for (std::int64_t p = 0; p < pixels; ++p, from += 3) {
        for (std::int64_t c = 0; c < 3; ++c)
          to[c * plane + p * step] = become(static_cast<std::size_t>(c), from[c]);
      }
      to += 3 * pixels;
    }
  };
  if (to_float_)
    paint(out.data_ptr<float>(),
          [&](std::size_t c, std::uint8_t byte) { return table_[256 * c + byte]; });
  else
    paint(out.data_ptr<std::uint8_t>(), [](std::size_t, std::uint8_t byte) { return byte; });
  return out;
}

}  // namespace rondo::data
