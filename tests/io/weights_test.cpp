// Weights of any kind: how the kind of a file is detected, and files in several parts.

#include "io/weights.h"

#include <gmock/gmock.h>

#include "extras/torch_files/torch_pickle.h"
#include "io/safetensors.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/golden.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

using io::read_weights;
using test::identical;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Weights : public ::testing::Test {
 protected:
  /// The reader's error for a file with these bytes.
  std::string said(const std::string& bytes) {
    test::write_file(folder_ / "file", bytes);
    return test::message_of<IoError>([&] { read_weights(folder_ / "file"); });
  }
  /// Its error for an index with this map, next to the shards a and b.
  std::string said_of_index(const std::string& map) {
    return said("{\"metadata\": {\"total_size\": 24}, \"weight_map\": {" + map + "}}");
  }
  void write_shards() {
    io::save_safetensors(folder_ / "a", {{"w", ones({2})}, {"shared", ones({1})}});
    io::save_safetensors(folder_ / "b", {{"v", zeros({3})}, {"shared", zeros({1})}});
  }

  test::TemporaryFolder folder_;
};

TEST_F(Weights, KindsAreToldApartByWhatIsInside) {
  io::save_safetensors(folder_ / "one", {{"w", ones({2})}}, {{"k", "v"}});
  io::save_torch(folder_ / "two", {{"w", ones({2})}});
  EXPECT_EQ(read_weights(folder_ / "one").metadata.at("k"), "v");
  EXPECT_EQ(read_weights(folder_ / "two").tensors.size(), 1u);
  EXPECT_TRUE(io::is_safetensors_file(folder_ / "one"));
  EXPECT_FALSE(io::is_safetensors_file(folder_ / "two"));
  EXPECT_THAT(test::message_of<IoError>([&] { read_weights(folder_ / "one", "ema"); }),
              HasSubstr("it has no entry ema"));
  test::write_file(folder_ / "legacy", test::golden_bytes("torch_files_hex.txt", "legacy"));
  EXPECT_EQ(io::load_weights(folder_ / "legacy").size(), 15u);
}

// One part has only tensors of a dtype that rondo lacks; the others are read.
TEST_F(Weights, APartThatCannotBeReadIsLeftOut) {
  write_shards();
  const std::string header = R"({"f4":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})";
  const std::uint64_t length = header.size();
  test::write_file(folder_ / "c", std::string(reinterpret_cast<const char*>(&length), 8) + header +
                                      std::string(1, '\0'));
  test::write_file(folder_ / "file", R"({"weight_map": {"w": "a", "f4": "c"}})");
  const io::WeightsFile read = read_weights(folder_ / "file");
  ASSERT_EQ(read.tensors.size(), 1u);
  EXPECT_EQ(read.tensors[0].name, "w");
  ASSERT_EQ(read.left_out.size(), 2u);  // and tensors that the index does not name
  EXPECT_EQ(read.left_out[1].name, "f4");
  EXPECT_THAT(said(R"({"weight_map": {"f4": "c"}})"), HasSubstr("no tensors that can be read: f4"));
}

TEST_F(Weights, WhatIsSomethingElseIsSaid) {
  const std::string zeros(600, '\0');
  const auto tar = [&](std::string name) {
    name.resize(257);
    return name + "ustar" + zeros;
  };
  for (const auto& [bytes, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"<!DOCTYPE html>\n<html>",
            "is an HTML page, as a server sends it for a login or an "
            "error; download the file itself"},
           {"\n<HTML lang=\"en\">" + zeros, "is an HTML page"},
           {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "is a Git LFS pointer, not the file itself; get the file with: git lfs pull"},
           {"\x1f\x8b\x08" + zeros, "is compressed with gzip; unpack it first"},
           {std::string("\xfd"
                        "7zXZ\0",
                        6) +
                zeros,
            "is compressed with xz"},
           {"BZh9" + zeros, "is compressed with bzip2"},
           {"\x28\xb5\x2f\xfd" + zeros, "is compressed with zstd"},
           {tar("weights/conv1"), "is a tar archive; unpack it first"},
           {tar("sys_info"),
            "is a tar archive as PyTorch before 0.1.10 wrote them; load it in "
            "Python"},
           {"GGUF" + zeros, "is a GGUF file"},
           {"\x89HDF\r\n\x1a\n" + zeros, "is an HDF5 file"},
           {"\x93NUMPY" + zeros, "is a NumPy array; io::load_npy reads it"},
           {"\x89PNG\r\n\x1a\n" + zeros, "is a PNG image"},
           {"\xff\xd8\xff\xe0" + zeros, "is a JPEG image"},
           {"Notes about the model.\n", "is a text file; it has no tensors"},
           {"\x80\x04" + zeros, "is a pickle that torch.save did not write"},
           {test::golden_bytes("torch_files_hex.txt", "torchscript"), "is a TorchScript archive"},
           {test::golden_bytes("torch_files_hex.txt", "module"), "is a whole model"},
       })
    EXPECT_THAT(said(bytes), HasSubstr("/file: " + sentence));
  EXPECT_THAT(said(""), HasSubstr("/file: is empty"));
  for (const std::string& unknown : {std::string("\1"), zeros, std::string(600, '\1')})
    EXPECT_THAT(said(unknown), HasSubstr("/file: is neither a safetensors file nor a torch.save "
                                         "file; other kinds of weights are not read"));
  // Readers of one kind know the others, too.
  write_shards();
  io::save_torch(folder_ / "c.pth", {{"w", ones({2})}});
  EXPECT_THAT(test::message_of<IoError>([&] { io::load_safetensors(folder_ / "c.pth"); }),
              HasSubstr("c.pth: is a torch.save file; io::load_weights"));
  test::write_file(folder_ / "page", "<html>" + zeros);
  EXPECT_THAT(test::message_of<IoError>([&] { io::load_safetensors(folder_ / "page"); }),
              HasSubstr("page: is an HTML page"));
  EXPECT_THAT(test::message_of<IoError>([&] { io::load_torch(folder_ / "page"); }),
              HasSubstr("page: is an HTML page"));
  EXPECT_THAT(test::message_of<IoError>([&] { io::load_torch(folder_ / "a"); }),
              HasSubstr("a: is not a torch.save file"));
  EXPECT_THAT(test::message_of<IoError>([&] { io::load_weights(folder_.path().string()); }),
              HasSubstr("it is a folder, not a regular file"));
  EXPECT_THAT(test::message_of<IoError>([&] { io::load_safetensors(""); }),
              HasSubstr("cannot read a file: its name is empty"));
  EXPECT_THAT(test::message_of<IoError>([&] { io::save_weights("", {}); }),
              HasSubstr("cannot write a file: its name is empty"));
}

TEST_F(Weights, AFileOfSeveralPartsIsOneSetOfTensors) {
  write_shards();
  EXPECT_EQ(said_of_index(R"("v": "b", "w": "a", "shared": "b")"), "");
  const io::WeightsFile file = read_weights(folder_ / "file");
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.tensors[0].name, "v");
  EXPECT_EQ(file.tensors[1].name, "shared");
  EXPECT_EQ(file.tensors[1].tensor.item(), 0);
  EXPECT_EQ(file.tensors[2].name, "w");
  EXPECT_EQ(file.metadata.at("total_size"), "24");
  ASSERT_EQ(file.left_out.size(), 1u);
  EXPECT_EQ(file.left_out[0].name + ": " + file.left_out[0].why,
            "shared: it is in a, where the index does not say so");
  // PyTorch's files in several parts have the same kind of index.
  io::save_torch(folder_ / "c.bin", {{"u", ones({2})}});
  EXPECT_EQ(said_of_index(R"("u": "c.bin")"), "");
  EXPECT_EQ(io::load_weights(folder_ / "file").size(), 1u);
}

TEST_F(Weights, AnIndexThatIsWrongIsOneError) {
  write_shards();
  EXPECT_THAT(
      said_of_index(R"("w": "a", "x": "missing.safetensors")"),
      HasSubstr("/file: the index names missing.safetensors, which does not exist; all parts "
                "must be in the folder of the index"));
  EXPECT_THAT(said_of_index(R"("v": "a")"),
              HasSubstr("/file: the index has \"v\" in a, which has no such tensor"));
  for (const char* name : {"../a", "/etc/passwd", "..", ".", "", "sub/a", "a\\u0000"})
    EXPECT_THAT(said_of_index(concat("\"w\": \"", name, "\"")),
                HasSubstr("/file: a part must be a file in the folder of its index, which names"))
        << name;
  EXPECT_THAT(said_of_index(R"("w": "a", "w": "b")"), HasSubstr("the index has \"w\" twice"));
  EXPECT_THAT(said_of_index(R"("w": 1)"), HasSubstr("the index has no file name for \"w\""));
  EXPECT_THAT(said_of_index(R"("w": "file")"), HasSubstr("names file, which is not a file of"));
  EXPECT_THAT(said("{\"a\": 1}"), HasSubstr("/file: is JSON text without the \"weight_map\""));
  EXPECT_THAT(said("{\"weight_map\": {"), HasSubstr("/file: is not valid JSON (at byte "));
  EXPECT_THAT(said(std::string("{\"weight_map\": {}}\0", 19)), HasSubstr("a NUL at byte 18"));
  EXPECT_EQ(said("{\"weight_map\": {}, \"other\": [[{\"weight_map\": {\"w\": 1}}], 1.5, null]}"),
            "");
}

TEST_F(Weights, AreWrittenInSeveralParts) {
  const nn::StateDict tensors = {{"a", arange(4).to(f32)},  // 16 bytes
                                 {"b", ones({2})},
                                 {"c", ones({9})},  // larger than a part
                                 {"d", zeros({0})},
                                 {"e", full({2, 2}, 3.0)}};
  const std::string index = (folder_ / "model.safetensors.index.json").string();
  io::save_weights_sharded(index, tensors, 24);
  EXPECT_EQ(folder_.count(), 4);
  EXPECT_EQ(io::load_weights(folder_ / "model-00001-of-00003.safetensors").size(), 2u);
  EXPECT_EQ(io::load_weights(folder_ / "model-00002-of-00003.safetensors").size(), 1u);
  const io::WeightsFile file = read_weights(index);
  EXPECT_EQ(file.metadata.at("total_size"), "76");
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file.tensors[i].name, tensors[i].name);
    EXPECT_TRUE(identical(file.tensors[i].tensor, tensors[i].tensor));
  }
  EXPECT_ERROR(io::save_weights_sharded(folder_ / "m.safetensors", tensors, 24), IoError,
               "m.safetensors: the index of a sharded file ends with .safetensors.index.json");
  EXPECT_ERROR(io::save_weights_sharded(index, {{"w", ones({9})}, {"w", ones({9})}}, 24), IoError,
               "two tensors have the name \"w\"");
  EXPECT_ERROR(io::save_weights_sharded(index, tensors, 0), Error, "max_shard_size is 0");
  EXPECT_EQ(io::load_weights(index).size(), tensors.size());  // refused before anything was written
  // Without its index nobody reads a mixture of old and new files.
  const std::filesystem::path second = folder_ / "model-00002-of-00003.safetensors";
  std::filesystem::remove(second);
  std::filesystem::create_directory(second);
  EXPECT_THROW(io::save_weights_sharded(index, tensors, 24), IoError);
  EXPECT_FALSE(std::filesystem::exists(index));
}

}  // namespace
}  // namespace rondo
