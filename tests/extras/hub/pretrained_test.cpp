// Weights by name, from file:// URLs, and files from other projects, if they exist.

#include "extras/hub/pretrained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "autograd/grad_mode.h"
#include "io/hash.h"
#include "io/weights.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/support.h"

namespace rondo::hub {
namespace {

namespace fs = std::filesystem;
using test::Environment;
using test::identical;
using test::message_of;
using test::TemporaryFolder;
using ::testing::HasSubstr;

class Pretrained : public ::testing::Test {
 protected:
  /// Registers `name`: weights at a file:// URL, with this checksum or the correct one.
  fs::path serve(const std::string& name, nn::Module& net, std::string checksum = "",
                 const std::string& prefix = "") {
    nn::StateDict state = net.state_dict();
    for (nn::NamedTensor& entry : state) entry.name = prefix + entry.name;
    const fs::path file = scratch_ / (name + ".pth");
    io::save_weights(file.string(), state);
    if (checksum.empty()) checksum = data::sha256_of(file);
    add_weights(
        {.name = name,
         .file = {.name = "weights.pth", .url = "file://" + file.string(), .checksum = checksum},
         .entry = {}});
    return file;
  }

  TemporaryFolder scratch_;
  Environment data_{"RONDO_DATA", (scratch_ / "data").c_str()};
};

TEST_F(Pretrained, ANameIsDownloadedOnceAndChecked) {
  nn::ResNet net({.depth = 18, .num_classes = 7, .stem = nn::Stem::cifar});
  const fs::path file = serve("mine", net);
  EXPECT_EQ(io::param_hash(resnet18({.pretrained = "mine"}).state_dict()),
            io::param_hash(net.state_dict()));
  fs::remove(file);  // now it is in the cache
  nn::ResNet again = resnet18({.pretrained = "mine", .num_classes = 3});
  EXPECT_EQ(again.fc.as<nn::Linear>().weight.shape(), (Dims{3, 512}))
      << "another number of classes: a new last layer";
  EXPECT_TRUE(identical(again.conv1.weight.detach(), net.conv1.weight.detach()));
  EXPECT_FALSE(again.maxpool.has_value()) << "the stem is the weights'";
  const NoGradGuard no_grad;
  EXPECT_EQ(again(randn({1, 3, 32, 32})).shape(), (Dims{1, 3}));
}

TEST_F(Pretrained, TheWholeChecksumIsCompared) {
  nn::CifarResNet net({.depth = 20});
  const fs::path file = serve("short", net);
  const std::string sum = data::sha256_of(file);
  serve("short", net, sum.substr(0, 8));
  EXPECT_THAT(message_of<Error>([] { cifar_resnet(20, {.pretrained = "short"}); }),
              HasSubstr("is not a SHA-256 (64 hexadecimal digits in lower case)"));
  const std::string wrong = sum.substr(0, 8) + std::string(56, '0');
  serve("wrong", net, wrong);
  EXPECT_THAT(message_of<IoError>([] { cifar_resnet(20, {.pretrained = "wrong"}); }),
              HasSubstr("instead of " + wrong + "; the download was discarded"));
}

TEST_F(Pretrained, WithoutANetworkItSaysWhatToPutWhere) {
  const std::string url = "http://127.0.0.1:1/weights/theirs.pth";
  const Environment proxy("no_proxy", "*");
  add_weights({.name = "theirs",
               .file = {.name = "theirs.pth", .url = url, .checksum = std::string(64, '0')},
               .entry = {}});
  const std::string folder = (scratch_ / "data/weights/theirs-00000000").string();
  const auto instead = HasSubstr(
      ", or give a file's path in place of the name theirs (PretrainedOptions::pretrained; "
      "--weights "
      "FILE in the examples)");
  EXPECT_THAT(
      message_of<IoError>([] { load_pretrained("theirs"); }),
      AllOf(HasSubstr(url + ": cannot be downloaded"),
            HasSubstr("put theirs.pth from http://127.0.0.1:1/weights/ into " + folder), instead));
  EXPECT_THAT(message_of<IoError>([] { load_pretrained("theirs", {.allow_download = false}); }),
              AllOf(HasSubstr(folder +
                              ": is not here, and downloads are not allowed; put "
                              "theirs.pth from http://127.0.0.1:1/weights/ into " +
                              folder),
                    instead));
  EXPECT_THAT(message_of<IoError>([] { load_pretrained("resnet18", {.allow_download = false}); }),
              HasSubstr(concat("on a machine with a network run `rondo-data get resnet18 --to ",
                               (scratch_ / "data").string(), "`")));
  nn::CifarResNet net({.depth = 20});
  io::save_weights(scratch_ / "made.pth", net.state_dict());
  fs::create_directories(folder);
  fs::copy(scratch_ / "made.pth", folder + "/theirs.pth");
  EXPECT_EQ(cifar_resnet(20, {.pretrained = "theirs"}).fc.weight.size(0), 10);
}

TEST_F(Pretrained, KeysAreRenamedByRules) {
  nn::CifarResNet net({.depth = 20, .shortcut = nn::Shortcut::b});
  const fs::path file = serve("wrapped", net, "", "module.");
  nn::CifarResNet same = cifar_resnet(20, {.pretrained = file.string()});
  EXPECT_EQ(io::param_hash(same.state_dict()), io::param_hash(net.state_dict()));
  EXPECT_THAT(
      message_of<IoError>([&] { cifar_resnet(20, {.pretrained = file.string(), .keys = {}}); }),
      HasSubstr("wrapped.pth: has no fc.weight of 2 dimensions"));
}

TEST_F(Pretrained, WhatDoesNotFitIsNamed) {
  nn::CifarResNet net({.depth = 20});
  const fs::path file = serve("twenty", net);
  EXPECT_THAT(message_of<Error>([] { cifar_resnet(32, {.pretrained = "twenty"}); }),
              AllOf(HasSubstr("twenty: "), HasSubstr("layer1.3.conv1.weight")));
  EXPECT_THAT(
      message_of<IoError>([] { load_pretrained("resnet19"); }),
      AllOf(HasSubstr("weights resnet19: neither a file nor a known name; use a file or one of "),
            HasSubstr("resnet18"), HasSubstr("cifar10_resnet20")));
}

TEST_F(Pretrained, TheTableIsSound) {
  std::set<std::string> names;
  for (const PretrainedWeights& weights : known_weights()) {
    EXPECT_TRUE(names.insert(weights.name).second) << weights.name;
    if (!weights.file.url.starts_with("https://")) continue;  // added here
    EXPECT_TRUE(weights.file.url.ends_with(weights.file.name)) << weights.name;
    EXPECT_EQ(weights.file.checksum.size(), 64U) << weights.name;
    EXPECT_THAT(weights.file.name, HasSubstr(weights.file.checksum.substr(0, 8)))
        << "the authors put the beginning of the checksum into the name";
  }
}

TEST(Hub, FilesOfOthers) {
  const fs::path folder = test::real_data() / "weights";
  if (!fs::exists(folder)) GTEST_SKIP() << "no RONDO_DATA";
  nn::CifarResNet a = cifar_resnet(20, {.pretrained = folder / "cifar10_resnet20_legacy.th"}),
                  b = cifar_resnet(20, {.pretrained = folder / "cifar10_resnet20_zip.pth"});
  EXPECT_EQ(a.num_parameters(), 269'722);
  EXPECT_EQ(b.num_parameters(), 272'474);
}

TEST(Hub, WithoutWeightsTheNetworksAreNew) {
  EXPECT_EQ(resnet18().num_parameters(), 11'689'512);
  EXPECT_EQ(resnet34({.num_classes = 10}).fc.as<nn::Linear>().weight.size(0), 10);
  EXPECT_EQ(resnet50().num_parameters(), 25'557'032);
  EXPECT_EQ(cifar_resnet(20).num_parameters(), 269'722);
}

}  // namespace
}  // namespace rondo::hub
