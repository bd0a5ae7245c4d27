// Lists folders in torchvision's order, and makes batches of decoded pictures.

#include "data/image_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "data/files.h"
#include "data/image.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& file) {
  std::string ending = file.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

/// The entries of a folder, sorted by name.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error))
    entries.push_back(at->path());
  require<IoError>(!error, folder.string(), ": cannot be listed (", error.message(), ")");
  std::sort(entries.begin(), entries.end(), [](const fs::path& a, const fs::path& b) {
    return a.filename().native() < b.filename().native();
  });
  return entries;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Collects the pictures in `folder` and below. `above` are the real paths of the folders that lead
/// here.
void collect(const fs::path& folder, std::vector<fs::path>& above, std::vector<fs::path>& files) {
  const fs::path real = fs::canonical(folder);
  require<IoError>(std::find(above.begin(), above.end(), real) == above.end(), folder.string(),
                   ": a link back to a folder above it");
  above.push_back(real);
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code ignored;
    if (is_folder(entry)) {
      collect(entry, above, files);
    } else if (is_picture(entry)) {
      const fs::file_type type = fs::status(entry, ignored).type();
      require<IoError>(type != fs::file_type::not_found, entry.string(),
                       ": is a link to a file that does not exist");
      require<IoError>(type != fs::file_type::none, entry.string(), ": ", ignored.message());
      if (fs::is_regular_file(entry, ignored)) files.push_back(entry);
    }
  }
  above.pop_back();
}

std::vector<fs::path> pictures_in(const fs::path& folder) {
  std::vector<fs::path> above, files;
  try {
    collect(folder, above, files);
  } catch (const fs::filesystem_error& error) {
    throw IoError(concat(folder.string(), ": cannot be listed (", error.code().message(), ")"));
  }
  // By folder, then by name, because torchvision sorts the results of os.walk.
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const int order = a.parent_path().native().compare(b.parent_path().native());
    return order != 0 ? order < 0 : a.filename().native() < b.filename().native();
  });
  return files;
}

}  // namespace

DecodedImages::DecodedImages(ImagePipeline pipeline) : pipeline_(std::move(pipeline)) {}

Batch DecodedImages::get_epoch_batch(const Draw& draw,
                                     std::span<const std::int64_t> indices) const {
  std::vector<Tensor> pictures;
  const Tensor labels = Tensor::empty({std::ssize(indices)}, {.dtype = i64});
  auto* to = labels.data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    require<ShapeError>(index >= 0 && index < size(), "sample ", index,
                        " was asked for, but the data set has ", size(), " samples");
    const Tensor picture = decode(index);
    try {
      pictures.push_back(pipeline_.apply(picture, index, draw.stream(pictures.size())));
      require<ShapeError>(pictures.back().shape() == pictures[0].shape(), "becomes ",
                          pictures.back().shape(), ", but ", name(indices[0]), " becomes ",
                          pictures[0].shape(),
                          "; end the pipeline with CenterCrop, RandomResizedCrop or a Resize of "
                          "two sides");
    } catch (const ShapeError& error) {
      throw ShapeError(concat(name(index), ": ", error.what()));
    }
    *to++ = label(index);
  }
  return {pipeline_.stack(pictures), labels};
}

ImageFolder::ImageFolder(const std::string& root, ImagePipeline pipeline,
                         ImageFolderOptions options)
    : DecodedImages(std::move(pipeline)) {
  if (!has_image_decoders()) decode_image({}, concat("ImageFolder ", root));  // throws
  require_folder(root);
  std::vector<std::string> empty;
  for (const fs::path& folder : entries_of(root)) {
    if (!is_folder(folder)) continue;
    const std::int64_t label = std::ssize(classes_);
    classes_.push_back(folder.filename().string());
    class_to_idx_[classes_.back()] = label;
    const std::vector<fs::path> files = pictures_in(folder);
    if (files.empty()) empty.push_back(classes_.back());
    for (const fs::path& file : files) samples_.push_back({file, label});
  }
  require<IoError>(!classes_.empty(), root, ": holds no folders; each class needs a folder");
  require<IoError>(empty.empty() || options.allow_empty, root, ": ", empty.size(), " of ",
                   classes_.size(), " classes have no .jpg, .jpeg or .png file, such as '",
                   empty.empty() ? "" : empty[0], "'");
}

Tensor ImageFolder::decode(std::int64_t index) const {
  return read_image(samples_.at(static_cast<std::size_t>(index)).file);
}

std::int64_t ImageFolder::label(std::int64_t index) const {
  return samples_.at(static_cast<std::size_t>(index)).label;
}

std::string ImageFolder::name(std::int64_t index) const {
  return samples_.at(static_cast<std::size_t>(index)).file;
}

}  // namespace rondo::data
