// export_cpp: the exported files are compiled with the compiler of the build, run, and compared
// with the model.

#include "extras/export_cpp/export_cpp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scan.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/conv_transpose2d.h"
#include "nn/embedding.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "nn/models/models.h"
#include "nn/models/unet.h"
#include "nn/norm.h"
#include "nn/padding.h"
#include "nn/pooling.h"
#include "nn/recurrent.h"
#include "nn/transformer.h"
#include "support/disturb.h"
#include "support/errors.h"
#include "support/files.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using ::testing::HasSubstr;

/// A function as a module.
struct ExportedLambda : nn::Module {
  std::function<Tensor(const Tensor&)> f;
  explicit ExportedLambda(std::function<Tensor(const Tensor&)> f) : f(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return f(x); }
};

/// Characters and positions, and a causal mask.
struct LanguageModel : nn::Module {
  nn::Embedding characters{11, 16}, places{7, 16};
  nn::TransformerEncoder encoder{
      nn::TransformerEncoderLayer(16, 4,
                                  {.dim_feedforward = 32,
                                   .activation = nn::TransformerActivation::gelu,
                                   .layer_norm_eps = 0.125,
                                   .batch_first = true,
                                   .norm_first = true}),
      2, nn::LayerNorm(16)};
  nn::Linear head{16, 11};
  Tensor forward(const Tensor& x) override {
    return head(encoder(characters(x) + places(arange(x.size(1))), {.is_causal = true}));
  }
  void visit(nn::Visitor& v) override {
    v.child("characters", characters);
    v.child("places", places);
    v.child("encoder", encoder);
    v.child("head", head);
  }
};

struct Ended {
  int status;
  std::string out, err;
};

/// Runs a shell command in a folder.
Ended run(const TemporaryFolder& folder, const std::string& command) {
  const std::string all =
      concat("cd '", (folder / "").string(), "' && { ", command, "; } < in > out 2> err");
  const int status = std::system(all.c_str());
  return {WEXITSTATUS(status), read_file(folder / "out"), read_file(folder / "err")};
}

std::string bytes_of(const Tensor& x) {
  const Tensor rows = x.contiguous();
  return {static_cast<const char*>(rows.data_ptr()), static_cast<std::size_t>(rows.nbytes())};
}

/// The compiler of the build (tests/CMakeLists.txt).
std::string compile(const std::string& file) {
  const char* compiler = std::getenv("CXX");
  return concat(compiler == nullptr ? "c++" : compiler,
                " -std=c++17 -Wall -Wextra -Werror -O1 -DRONDO_MAIN -o program ", file);
}

/// Exports, compiles and runs a model, and compares the result with the model's. The rounding
/// errors of `layers` layers with sums of up to `longest` products may differ.
void expect_equal(nn::Module& model, const std::function<Tensor(const Tensor&)>& forward,
                  const nn::ModelCall& call, const Tensor& input, int layers, int longest) {
  const TemporaryFolder folder;
  manual_seed(1);
  disturb(model);
  const bool training = model.is_training();
  io::export_cpp(call, folder / "model.cpp");
  EXPECT_EQ(folder.count(), 2);
  EXPECT_EQ(model.is_training(), training);
  model.eval();
  const NoGradGuard no_grad;
  const Tensor other = is_floating(input.dtype()) ? input * -0.75 + 0.25 : input.flip({1});
  write_file(folder / "in", bytes_of(input) + bytes_of(other));  // two inputs, one after the other
  const Ended built = run(folder, compile("model.cpp") + " && ./program");
  ASSERT_EQ(built.status, 0) << built.err;
  const std::string expected = bytes_of(forward(input)) + bytes_of(forward(other));
  ASSERT_EQ(built.out.size(), expected.size());
  std::vector<float> y(expected.size() / sizeof(float)), z(y.size());
  std::memcpy(y.data(), expected.data(), expected.size());
  std::memcpy(z.data(), built.out.data(), expected.size());
  float largest = 0, difference = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    largest = std::max(largest, std::abs(y[i]));
    difference = std::max(difference, std::abs(y[i] - z[i]));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LE(difference, layers * std::sqrt(longest) * 0x1p-24 * largest);
}
template <class M>
void expect_equal(M& model, const Tensor& input, int layers, int longest) {
  expect_equal(
      model, [&](const Tensor& x) { return model(x); }, nn::call_of(model, input), input, layers,
      longest);
}

TEST(ExportCpp, Mlp) {
  nn::AnyModule model = nn::make_model("mlp");
  expect_equal(model, randn({2, 1, 28, 28}), 3, 784);
}

TEST(ExportCpp, ResNet20) {
  nn::AnyModule model = nn::make_model("resnet20");
  expect_equal(model, randn({1, 3, 32, 32}), 20, 576);
}

TEST(ExportCpp, DepthwiseAndPools) {
  nn::Sequential model(
      nn::Conv2d(3, 10, 1, {.bias = false}), nn::BatchNorm2d(10, {.eps = 0.25}), nn::ReLU6(),
      nn::Conv2d(10, 10, 3, {.stride = {2, 1}, .padding = {1, 2}, .dilation = 2, .groups = 10}),
      nn::BatchNorm2d(10), nn::Hardswish(), nn::MaxPool2d(3, {.stride = 2, .padding = 1}),
      nn::BatchNorm2d(10), nn::SiLU(), nn::Conv2d(10, 6, {2, 3}, {.groups = 2}),
      nn::AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true}),
      nn::AdaptiveAvgPool2d({2, 3}), nn::Flatten(), nn::Linear(36, 33), nn::BatchNorm1d(33));
  expect_equal(model, randn({2, 3, 17, 39}), 10, 36);
}

TEST(ExportCpp, TransposedConvolutions) {
  nn::Sequential model(
      nn::ConvTranspose2d(3, 5, {3, 2},
                          {.stride = {2, 3}, .padding = {2, 1}, .output_padding = {1, 0}}),
      nn::BatchNorm2d(5), nn::ReLU(),
      nn::ConvTranspose2d(5, 2, 3, {.bias = false, .dilation = {2, 1}}), nn::Tanh());
  expect_equal(model, randn({2, 3, 5, 7}), 3, 45);
}

/// The sizes are odd, so what is joined is padded.
TEST(ExportCpp, UNet) {
  nn::UNet model({.width = 2});
  expect_equal(model, randn({1, 3, 35, 16}), 23, 576);
}

TEST(ExportCpp, Transformer) {
  LanguageModel model;
  expect_equal(model, randint(0, 11, {2, 7}), 16, 32);
}

TEST(ExportCpp, Functions) {
  ExportedLambda model([](const Tensor& x) {
    const Tensors thirds = chunk(x, 3, 1), rows = unbind(x, 0);
    const Tensor mask = gt(arange(4), 1);
    const Tensor parts = cat({thirds[2], ones({2, 1, 4}), thirds[0]}, 1).flip({0, 2});
    const Tensor a =
        1.0 - x / 3.0 + sub(x, x.exp(), 3.0) + masked_fill(x, mask, -2.0) * x.abs().pow(1.5);
    const Tensor b = x.mean({1}, true) + amax(x, {0, 1}, true) + softmax(x, 1) + log_softmax(x, 2);
    return a + b + parts * rows[1] + maximum(x, rows[0]).transpose(0, 1).transpose(0, 1) +
           slice(x, 2, 1, 3, 2).sum();
  });
  expect_equal(model, randn({2, 3, 4}), 16, 6);
}

/// The error of export_cpp for a model; it must leave no file.
template <class M>
std::string export_refusal_of(M model, const Tensor& example) {
  const TemporaryFolder folder;
  const std::string said =
      message_of([&] { io::export_cpp(model, example, folder / "model.cpp"); });
  EXPECT_EQ(folder.count(), 0);
  return said;
}

TEST(ExportCpp, NamesTheOpAndTheLayerItCannotExport) {
  EXPECT_EQ(
      export_refusal_of(nn::Sequential(nn::ReLU(), nn::ReflectionPad2d(1)), ones({1, 4, 3, 3})),
      "export_cpp: 'index_select' in 1 has no C++ form in rondo");
  EXPECT_EQ(export_refusal_of(nn::Sequential(nn::ConvTranspose2d(4, 4, 2, {.groups = 2})),
                              ones({1, 4, 3, 3})),
            "export_cpp: 'conv_transpose2d' in 0 has 2 groups; only 1 has a C++ form");
  EXPECT_EQ(export_refusal_of(nn::Sequential(nn::BatchNorm2d(2, {.track_running_stats = false})),
                              ones({1, 2, 4, 4})),
            "export_cpp: 'batch_norm' in 0 has no C++ form in rondo");
  EXPECT_THAT(
      export_refusal_of(ExportedLambda([](const Tensor& x) {
                          return x.mean({0, 2});
                        }),
                        ones({2, 3, 4})),
      HasSubstr("export_cpp: 'mean' in the model reduces dimensions that are not adjacent"));
  EXPECT_THAT(export_refusal_of(ExportedLambda([](const Tensor& x) { return linear(x, x * 2.0); }),
                                ones({2, 3})),
              HasSubstr("'linear' in the model: forward computes its weight"));
}

TEST(ExportCpp, RefusesConstantsThatDependOnTheInput) {
  EXPECT_THAT(
      export_refusal_of(ExportedLambda([](const Tensor& x) { return x * gt(x, 0.5).to(f32); }),
                        ones({2})),
      HasSubstr("'mul' in the model has a different argument for another input"));
  const auto product = [](auto view) {
    return export_refusal_of(ExportedLambda([=](const Tensor& x) { return x * view(x); }),
                             ones({2, 3}));
  };
  const char* reason = "'mul' in the model reads the input through a view";
  EXPECT_THAT(product([](const Tensor& x) { return x.detach(); }), HasSubstr(reason));
  EXPECT_THAT(product([](const Tensor& x) { return x.detach().narrow(0, 0, 1); }),
              HasSubstr(reason));
  EXPECT_THAT(product([](const Tensor& x) {
                const NoGradGuard no_grad;
                return x[0];
              }),
              HasSubstr(reason));
}

TEST(ExportCpp, DimensionsMayBeNegative) {
  for (const Dims& dims : {Dims{-1}, {-2, -1}, {-2}, {-3}}) {
    ExportedLambda largest(
        [dims](const Tensor& x) { return amax(x, dims) - amin(x, dims, true).sum(); });
    expect_equal(largest, randn({2, 3, 4}), 4, 24);
  }
}

TEST(ExportCpp, RefusesOtherDtypesAndPaths) {
  nn::Linear model(3, 2);
  model.to(f64);
  EXPECT_THAT(export_refusal_of(model, ones({2, 3}, {.dtype = f64})),
              HasSubstr("an example of f64"));
  const TemporaryFolder folder;
  nn::Linear layer(3, 2);
  EXPECT_ERROR(io::export_cpp(layer, ones({2, 3}), folder / "no" / "x.cpp"), IoError, "x.cpp");
  EXPECT_ERROR(io::export_cpp(layer, ones({2, 3}), folder / "x.weights"), IoError,
               "extension .cpp");
}

/// A keyword, and names that the global namespace has.
TEST(ExportCpp, FilesMayHaveAnyName) {
  const TemporaryFolder folder;
  nn::Linear model(3, 2);
  write_file(folder / "in", "");
  for (const char* name : {"class", "main", "std", "exp"}) {
    io::export_cpp(model, ones({1, 3}), folder / concat(name, ".cpp"));
    EXPECT_EQ(run(folder, compile(concat(name, ".cpp"))).status, 0) << read_file(folder / "err");
  }
}

TEST(ExportCpp, TheProgramChecksItsFiles) {
  const TemporaryFolder folder;
  nn::Embedding model(5, 3), other(5, 3);
  const Tensor example = tensor<std::int64_t>({1, 4});
  io::export_cpp(other, example, folder / "other.cpp");
  io::export_cpp(model, example, folder / "2 model.cpp");
  write_file(folder / "in", "");
  ASSERT_EQ(run(folder, compile("'2 model.cpp'")).status, 0) << read_file(folder / "err");
  const auto said = [&](const std::string& weights) {
    const Ended failed = run(folder, concat("./program ", weights));
    EXPECT_EQ(failed.status, 1);
    EXPECT_EQ(failed.out, "");
    return failed.err;
  };
  EXPECT_EQ(said("missing"), "missing: cannot open the weights of 2 model.cpp\n");
  EXPECT_EQ(said("other.weights"),
            "other.weights: is not the weights of 2 model.cpp; the file is damaged or of another "
            "export\n");
  write_file(folder / "cut", read_file(folder / "2 model.weights").substr(0, 40));
  EXPECT_EQ(
      said("cut"),
      "cut: has 40 bytes, but the weights of 2 model.cpp have 64; the file is truncated or of "
      "another export\n");
  write_file(folder / "in", bytes_of(tensor<std::int64_t>({1, 5})));
  EXPECT_EQ(said(""), "input 1 is 5, but the embedding has rows 0 to 4\n");
  write_file(folder / "in", "8 bytes.");
  EXPECT_EQ(said(""), "stdin: ends after 1 of the 2 elements of an input\n");
}

// A weight or a bias that forward computes is not absent.
TEST(ExportCpp, ComputedWeights) {
  nn::LSTM lstm(4, 5, {.num_layers = 2, .bidirectional = true});
  expect_equal(lstm, randn({3, 2, 4}), 12, 10);
  nn::RNN rnn(4, 5);
  expect_equal(rnn, randn({3, 2, 4}), 6, 10);
  const Tensor w = randn({3, 4}), b = randn({3}), c = randn({4}), k = randn({3, 4, 2, 2});
  ExportedLambda product([=](const Tensor& x) { return linear(x, w, b + b * x.mean()); });
  expect_equal(product, randn({2, 4}), 4, 8);
  ExportedLambda image([=](const Tensor& x) { return conv2d(x, k, b * x.mean()); });
  expect_equal(image, randn({2, 4, 5, 5}), 4, 100);
  ExportedLambda pixel(
      [=](const Tensor& x) { return conv2d(x, k.narrow(2, 0, 1).narrow(3, 0, 1), b * x.mean()); });
  expect_equal(pixel, randn({2, 4, 5, 5}), 4, 100);
  ExportedLambda layer([=](const Tensor& x) {
    return layer_norm(layer_norm(x, {4}, c + x.mean(), c), {4}, c, c * x.mean());
  });
  expect_equal(layer, randn({2, 4}), 12, 8);
  ExportedLambda plain([](const Tensor& x) { return layer_norm(x, {4}); });
  expect_equal(plain, randn({2, 4}), 4, 8);
  ExportedLambda batch([=](const Tensor& x) {
    const Tensor y = batch_norm(x, c + x.mean(), c, c, c * c, {.training = false});
    return batch_norm(y, c, c * x.mean(), c, c * c, {.training = false});
  });
  expect_equal(batch, randn({2, 4, 3, 3}), 12, 40);
  EXPECT_THAT(export_refusal_of(ExportedLambda([=](const Tensor& x) {
                                  return batch_norm(x, c, c, c * x.mean(), c, {.training = false});
                                }),
                                randn({2, 4, 3, 3})),
              HasSubstr("forward computes its running statistics"));
}

TEST(ExportCpp, RefusesMasksThatTheExampleDoesNotShow) {
  const auto refusal = [](std::function<Tensor(const Tensor&)> f) {
    return export_refusal_of(ExportedLambda(std::move(f)), ones({2}));
  };
  const char* said = "has a different argument for another input";
  EXPECT_THAT(refusal([](const Tensor& x) { return x * gt(x, 100.0).to(f32); }), HasSubstr(said));
  EXPECT_THAT(refusal([](const Tensor& x) { return x * isnan(x).to(f32); }), HasSubstr(said));
  EXPECT_THAT(
      refusal([](const Tensor& x) { return x.abs().max().item() > 100 ? x * 2.0 : x * 3.0; }),
      HasSubstr(said));
  EXPECT_THAT(refusal([](const Tensor& x) { return x * (lt(x, 0.0).to(f32) * 3.0 + 1.0); }),
              HasSubstr(said));
  const TemporaryFolder folder;
  nn::Linear model(3, 2);
  for (const char* name : {"a\"b.cpp", "a.c\npp", "a.cpp\\"})
    EXPECT_ERROR(io::export_cpp(model, ones({2, 3}), folder / name), Error,
                 "the file's name becomes a part of the code");
}

}  // namespace
}  // namespace rondo::test
