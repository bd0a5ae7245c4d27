#pragma once
// ImageFolder: a data set of pictures in files, one folder a class.
//
//   root/cat/1.jpg, root/cat/more/2.png, root/dog/3.jpg …
//
//   auto train = std::make_shared<ImageFolder>("imagenet/train", ImagePipeline({…}, {.seed = 1}));
//   DataLoader loader(train, std::make_shared<RandomSampler>(train->size(), 1),
//                     {.batch_size = 64, .workers = 2});
//
// As torchvision.datasets.ImageFolder: classes are the folders in root, sorted by name, and samples
// the files below each, in folders of any depth, sorted; which are taken, their names' endings say.
// Files are read and decoded when a batch is made, which is to say in the loader's workers.
//
// Read next: data/image_pipeline.h, data/subsets.h, data/image.h.

#include <filesystem>
#include <map>

#include "data/dataset.h"
#include "data/image_pipeline.h"

namespace rondo::data {

/// A data set that makes its samples in two steps: decode(i), the same every time, and a pipeline,
/// which may draw. Between the two, data/subsets.h keeps what was decoded.
class DecodedImages : public Dataset {
 public:
  /// The picture of sample `index`, u8 (H, W, 3). Called from several threads at once.
  virtual Tensor decode(std::int64_t index) const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// What errors call the sample: its file.
  virtual std::string name(std::int64_t index) const = 0;

  /// (N, 3, H, W) by the pipeline, and i64 (N). Throws IoError naming a file that cannot be
  /// decoded; ShapeError naming a file whose picture the pipeline cannot take, or where pictures
  /// come out of it with different sizes.
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
  /// Folders without pictures are classes without samples; else they are an error.
  bool allow_empty = false;
};

class ImageFolder final : public DecodedImages {
 public:
  struct Sample {
    std::filesystem::path file;
    std::int64_t label;
  };

  /// Lists the files that end in .jpg, .jpeg or .png, in upper or lower case, and follows links.
  /// Throws IoError: root is missing or holds no folder, a class is without pictures, a link leads
  /// back to a folder above it; Error where rondo was built without decoders.
  explicit ImageFolder(const std::filesystem::path& root, ImagePipeline pipeline = ImagePipeline(),
                       ImageFolderOptions options = {});

  std::int64_t size() const override { return std::ssize(samples_); }
  const std::vector<std::string>& class_names() const override { return classes_; }
  Tensor decode(std::int64_t index) const override;
  std::int64_t label(std::int64_t index) const override;
  std::string name(std::int64_t index) const override;

  /// torchvision's names: class_names() and its inverse, the files with their classes.
  const std::vector<std::string>& classes() const { return classes_; }
  const std::map<std::string, std::int64_t>& class_to_idx() const { return class_to_idx_; }
  const std::vector<Sample>& samples() const { return samples_; }

 private:
  std::vector<std::string> classes_;
  std::map<std::string, std::int64_t> class_to_idx_;
  std::vector<Sample> samples_;
};

}  // namespace rondo::data
