// Folders of images: torchvision's order, errors that name files, and identical batches for any
// number of workers.

#include "data/image_folder.h"

#include "data/image.h"
#include "data/loader.h"
#include "data/subsets.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::data {
namespace {

using test::identical, test::TemporaryFolder, test::write_file;
namespace fs = std::filesystem;

std::string bytes_of(const std::string& name) { return test::golden_bytes("images_hex.txt", name); }

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_image_decoders()) GTEST_SKIP() << "built without libjpeg and libpng";
    // Added in an unsorted order.
    add("dog/b.PNG", "png_rgb");
    add("dog/a.jpg", "jpeg_420");
    add("cat/z.jpeg", "jpeg_grey");
    add("cat/deep/er/1.png", "png_rgba");
    add("cat/deep-1/2.png", "png_palette");
    add("cat/10.JPG", "jpeg_444");
    write_file(root() / "cat/notes.txt", "no picture");
    write_file(root() / "README.md", "no folder");
  }

  fs::path root() const { return folder_.path(); }
  void add(const std::string& file, const std::string& golden) const {
    write_file(root() / file, bytes_of(golden));
  }

 private:
  TemporaryFolder folder_;
};

std::vector<std::string> files_of(const ImageFolder& set, const fs::path& root) {
  std::vector<std::string> files;
  for (const auto& sample : set.samples())
    files.push_back(fs::relative(sample.file, root).string());
  return files;
}

// This is torchvision.datasets.ImageFolder(root).samples for the tree: sorted by folder ("deep-1"
// comes before "deep/er"), then by name.
TEST_F(Folder, ListsInTorchvisionsOrder) {
  const ImageFolder set(root());
  EXPECT_EQ(set.classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.class_to_idx().at("dog"), 1);
  EXPECT_EQ(set.num_classes(), 2);
  EXPECT_EQ(files_of(set, root()),
            (std::vector<std::string>{"cat/10.JPG", "cat/z.jpeg", "cat/deep-1/2.png",
                                      "cat/deep/er/1.png", "dog/a.jpg", "dog/b.PNG"}));
  EXPECT_EQ(set.size(), 6);
  EXPECT_EQ(set.label(3), 0);
  EXPECT_EQ(set.label(4), 1);
}

TEST_F(Folder, GivesTheirPictures) {
  const ImageFolder set(root(), ImagePipeline({Resize{8}, CenterCrop{8, 8}}));
  const test::Golden golden("images.txt");
  EXPECT_TRUE(identical(set.decode(0), golden["file.jpeg_444"]));
  EXPECT_TRUE(identical(set.decode(3), golden["file.png_rgba"]));
  const Indices asked{5, 2, 5};
  const Batch batch = set.get_batch(asked);
  EXPECT_TRUE(identical(batch.target, tensor<std::int64_t>({1, 0, 1})));
  std::vector<Tensor> wanted;
  for (const char* name : {"file.png_rgb", "file.png_palette", "file.png_rgb"})
    wanted.push_back(center_crop(resize_shorter(golden[name], 8), 8, 8));
  EXPECT_TRUE(identical(batch.input, ImagePipeline().stack(wanted)));
  EXPECT_EQ(set.get_batch({}).size(), 0);
}

ImagePipeline augmentation() {
  return ImagePipeline(
      {RandomResizedCrop{7, 9}, RandomHorizontalFlip{}, ColorJitter{0.4, 0.4, 0.4, 0.1}, ToFloat{},
       Normalize{{0.5F, 0.5F, 0.5F}, {0.25F, 0.25F, 0.25F}}},
      {.seed = 5});
}

/// All that two epochs of a loader over `set` return.
std::vector<float> two_epochs(const std::shared_ptr<const Dataset>& set, int workers) {
  DataLoader loader(set, std::make_shared<RandomSampler>(set->size(), 2),
                    {.batch_size = 4, .workers = workers});
  std::vector<float> all;
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    loader.set_epoch(epoch);
    for (const Batch& batch : loader) {
      for (const Tensor* tensor : {&batch.input, &batch.target}) {
        const auto values = tensor->to_vector<float>();
        all.insert(all.end(), values.begin(), values.end());
      }
    }
  }
  return all;
}

TEST_F(Folder, TheNumberOfWorkersDoesNotMatter) {
  for (int i = 0; i < 17; ++i) add("dog/more" + std::to_string(i) + ".png", "png_rgb");
  const auto set = std::make_shared<ImageFolder>(root(), augmentation());
  const auto wanted = two_epochs(set, 0);
  EXPECT_EQ(wanted.size(), 2 * 23U * (3 * 7 * 9 + 1));
  for (const int workers : {1, 2, 3, 7}) EXPECT_EQ(two_epochs(set, workers), wanted) << workers;
}

TEST_F(Folder, EpochsAreAugmentedAnewAndDoNotDependOnTheBatch) {
  const ImageFolder set(root(), augmentation());
  const Indices one{4}, several{0, 4};
  const auto first = set.get_epoch_batch({0}, one).input.to_vector<float>();
  EXPECT_EQ(set.get_batch(one).input.to_vector<float>(), first);
  EXPECT_NE(set.get_epoch_batch({1}, one).input.to_vector<float>(), first);
  const auto both = set.get_epoch_batch({0}, several).input.to_vector<float>();
  EXPECT_TRUE(std::equal(first.begin(), first.end(), both.end() - std::ssize(first)));
}

TEST_F(Folder, ACacheChangesNothingAndKeepsToItsLimit) {
  const auto set = std::make_shared<ImageFolder>(root(), augmentation());
  const auto wanted = two_epochs(set, 0);
  constexpr std::int64_t whole = 3 * (5 * 13 * 17 + 6 * 5);
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{1500}, whole, whole * 9}) {
    for (const int workers : {0, 3}) {
      const auto cached = std::make_shared<CachedDataset>(set, limit);
      EXPECT_EQ(two_epochs(cached, workers), wanted) << limit << " bytes";
      EXPECT_LE(cached->cached_bytes(), limit);
      EXPECT_EQ(cached->cached_count() == 6, limit >= whole);
      EXPECT_EQ(cached->cached_bytes() > 0, limit > 0);
      EXPECT_EQ(cached->class_names(), set->classes());
    }
  }
}

TEST_F(Folder, ACacheReadsNoFileTwice) {
  const CachedDataset cached(std::make_shared<ImageFolder>(root()), 1 << 20);
  const Tensor before = cached.decode(0);
  fs::remove(root() / "cat/10.JPG");
  EXPECT_TRUE(identical(cached.decode(0), before));
  EXPECT_ERROR(CachedDataset(nullptr, 1), Error, "no data set");
  EXPECT_ERROR(CachedDataset(std::make_shared<ImageFolder>(root()), -1), Error, "a limit of -1");
}

TEST_F(Folder, PartsOfOneSetAreAugmentedLikeTheWhole) {
  const auto set = std::make_shared<ImageFolder>(root(), augmentation());
  const Subset part(set, {5, 1});
  const Indices whole{1, 5}, same{1, 0};
  EXPECT_TRUE(
      identical(part.get_epoch_batch({3}, same).input, set->get_epoch_batch({3}, whole).input));
  EXPECT_EQ(part.class_names(), set->classes());
  // A sample that is repeated in an epoch is augmented differently, also through nested data sets.
  const Indices again{0, 1};
  const Tensor anew = part.get_epoch_batch({3, again}, same).input;
  EXPECT_FALSE(identical(anew, set->get_epoch_batch({3}, whole).input));
  const ConcatDataset both({std::make_shared<Subset>(set, Indices{1}), set});
  const Indices asked{0, 6};
  const Tensor through = both.get_epoch_batch({3, again}, asked).input;
  EXPECT_TRUE(
      identical(through.narrow(0, 0, 1), set->get_epoch_batch({3}, whole).input.narrow(0, 0, 1)));
  const Indices five{5}, once{1};
  EXPECT_TRUE(identical(through.narrow(0, 1, 1), set->get_epoch_batch({3, once}, five).input));
}

TEST_F(Folder, ABrokenFileIsNamed) {
  write_file(root() / "dog/broken.png", bytes_of("png_rgb").substr(0, 200));
  const auto set = std::make_shared<ImageFolder>(root(), ImagePipeline({Resize{4, 4}}));
  for (const int workers : {0, 2}) {
    DataLoader loader(set, std::make_shared<SequentialSampler>(set->size()),
                      {.batch_size = 7, .workers = workers});
    EXPECT_ERROR(loader.begin(), IoError, "dog/broken.png: not a whole PNG file");
  }
}

TEST_F(Folder, PicturesOfDifferentSizesAreNamed) {
  const ImageFolder set(root());
  const Indices all{0, 1, 2, 3};
  EXPECT_ERROR(set.get_batch(all), ShapeError, "deep/er/1.png: becomes [6, 5, 3], but ");
  const Indices outside{6};
  EXPECT_ERROR(set.get_batch(outside), ShapeError, "sample 6 was asked for");
}

TEST_F(Folder, FoldersThatAreNoDataSet) {
  EXPECT_ERROR(ImageFolder(root() / "none"), IoError, "none: no such folder");
  EXPECT_ERROR(ImageFolder(root() / "README.md"), IoError, "README.md: is a file, not a folder");
  EXPECT_ERROR(ImageFolder(root() / "dog"), IoError, "dog: holds no folders");
  fs::create_directories(root() / "ant");
  fs::create_directories(root() / "bee/deep");
  EXPECT_ERROR(ImageFolder(root()), IoError,
               "2 of 4 classes have no .jpg, .jpeg or .png file, such as 'ant'");
  const ImageFolder set(root(), ImagePipeline(), {.allow_empty = true});
  EXPECT_EQ(set.num_classes(), 4);
  EXPECT_EQ(set.label(0), 2);
}

TEST_F(Folder, LinksAreFollowedButNotInCircles) {
  fs::create_directory_symlink(root() / "dog", root() / "wolf");
  EXPECT_EQ(ImageFolder(root()).size(), 8);
  fs::create_directory_symlink(root() / "cat", root() / "cat/deep/self");
  EXPECT_ERROR(ImageFolder(root()), IoError, "cat/deep/self: a link back to a folder above it");
}

TEST_F(Folder, ALinkToNothingIsAnError) {
  fs::create_symlink(root() / "nowhere.png", root() / "cat/link.png");
  EXPECT_ERROR(ImageFolder(root()), IoError,
               "cat/link.png: is a link to a file that does not exist");
}

TEST(ImageFolderWithoutDecoders, SaysHowToGetThem) {
  if (has_image_decoders()) GTEST_SKIP() << "built with libjpeg and libpng";
  EXPECT_ERROR(ImageFolder("/tmp"), Error, "apt-get install libjpeg-dev libpng-dev");
}

}  // namespace
}  // namespace rondo::data
