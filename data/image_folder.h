#pragma once
// ImageFolder: a data set of picture files, one folder for each class.
//
//   root/cat/1.jpg, root/cat/more/2.png, root/dog/3.jpg …
//
//   auto train = std::make_shared<ImageFolder>("imagenet/train", ImagePipeline({…}, {.seed = 1}));
//   DataLoader loader(train, std::make_shared<RandomSampler>(train->size(), 1),
//                     {.batch_size = 64, .workers = 2});
//
// As torchvision.datasets.ImageFolder: the classes are the folders in root, sorted by name. The
// samples of a class are the picture files in its folder, at any depth, sorted; the file extension
// decides which files count. Files are read and decoded when a batch is made, so in the loader's
// workers.
//
// Read next: data/image_pipeline.h, data/subsets.h, data/image.h.

#include <map>
#include <string>

#include "data/dataset.h"
#include "data/image_pipeline.h"

namespace rondo::data {

/// A data set that makes its samples in two steps: decode(i), which is deterministic, and a
/// pipeline, which may draw at random. data/subsets.h can cache the decoded pictures between the
/// two.
class DecodedImages : public Dataset {
 public:
  /// The picture of sample `index`, u8 (H, W, 3). Called from several threads at once.
  virtual Tensor decode(std::int64_t index) const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// The name of the sample in errors: its file.
  virtual std::string name(std::int64_t index) const = 0;

  /// Inputs (N, 3, H, W) from the pipeline, and targets i64 (N). Throws IoError naming a file that
  /// cannot be decoded. Throws ShapeError naming a file whose picture the pipeline cannot process,
  /// or if the pipeline's pictures have different sizes.
  Batch get_batch(std::span<const std::int64_t> indices) const final {
    return get_epoch_batch({}, indices);
  }
  Batch get_epoch_batch(const Draw& draw, std::span<const std::int64_t> indices) const final;

  const ImagePipeline& pipeline() const { return pipeline_; }

 protected:
  explicit DecodedImages(ImagePipeline pipeline);

 private:
  ImagePipeline pipeline_;
};

struct ImageFolderOptions {
  /// true: folders without pictures are classes without samples; false: they are an error.
  bool allow_empty = false;
};

class ImageFolder final : public DecodedImages {
 public:
  struct Sample {
    std::string file;
    std::int64_t label;
  };

  /// Lists the files that end in .jpg, .jpeg or .png, in upper or lower case, and follows links.
  /// Throws IoError if root is missing or contains no folders, if a class has no pictures, or if a
  /// link leads back to a folder above it. Throws Error if rondo was built without decoders.
  explicit ImageFolder(const std::string& root, ImagePipeline pipeline = ImagePipeline(),
                       ImageFolderOptions options = {});

  std::int64_t size() const override { return std::ssize(samples_); }
  const std::vector<std::string>& class_names() const override { return classes_; }
  Tensor decode(std::int64_t index) const override;
  std::int64_t label(std::int64_t index) const override;
  std::string name(std::int64_t index) const override;

  /// torchvision's names: class_names() and its inverse, and the files with their classes.
  const std::vector<std::string>& classes() const { return classes_; }
  const std::map<std::string, std::int64_t>& class_to_idx() const { return class_to_idx_; }
  const std::vector<Sample>& samples() const { return samples_; }

 private:
  std::vector<std::string> classes_;
  std::map<std::string, std::int64_t> class_to_idx_;
  std::vector<Sample> samples_;
};

}  // namespace rondo::data
