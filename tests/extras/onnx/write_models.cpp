// write_models FOLDER [--all]: writes models as ONNX files, each next to NAME.safetensors with
// inputs and rondo's outputs under the file's names, and with the suffix "_2" for another batch.
// check.py gives the inputs to ONNX Runtime. --all also writes the large ResNets, 700 MB.

#include <filesystem>
#include <functional>
#include <iostream>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/interpolate.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "extras/onnx/onnx.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/containers.h"
#include "nn/conv1d.h"
#include "nn/conv2d.h"
#include "nn/conv3d.h"
#include "nn/conv_transpose1d.h"
#include "nn/conv_transpose2d.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/flatten.h"
#include "nn/fold.h"
#include "nn/init.h"
#include "nn/instance_norm.h"
#include "nn/models/convnext.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/mobilenet_v2.h"
#include "nn/models/models.h"
#include "nn/models/unet.h"
#include "nn/models/vgg.h"
#include "nn/models/vit.h"
#include "nn/norm.h"
#include "nn/padding.h"
#include "nn/pooling.h"
#include "nn/recurrent.h"
#include "nn/transformer.h"
#include "support/any_forward.h"
#include "support/disturb.h"
#include "support/mnist_cnn.h"
#include "tensor/creation.h"

namespace {

using namespace rondo;

/// A function as a module.
struct Lambda : nn::Module {
  std::function<Tensor(const Tensor&)> f;
  explicit Lambda(std::function<Tensor(const Tensor&)> f) : f(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return f(x); }
};

/// A layer whose product includes the activation.
struct WithActivation : nn::Linear {
  Activation activation;
  WithActivation(std::int64_t features, Activation activation)
      : Linear(features, features), activation(activation) {}
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias, activation); }
};

/// The model of examples/05_text.cpp: characters and positions, and a causal mask.
struct LanguageModel : nn::Module {
  nn::Embedding characters{11, 16}, places{7, 16};
  nn::TransformerEncoder encoder{
      nn::TransformerEncoderLayer(16, 4,
                                  {.dim_feedforward = 32, .batch_first = true, .norm_first = true}),
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

class Writer {
 public:
  explicit Writer(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void operator()(const std::string& name, nn::AnyModule model, const Tensor& input,
                  const io::OnnxOptions& options = {}) {
    const NoGradGuard no_grad;
    test::disturb(model);
    io::export_onnx(model, input, folder_ / (name + ".onnx"), options);
    model.eval();
    nn::StateDict tensors = {{"input", input}, {"output", model(input).contiguous()}};
    if (options.dynamic_batch) {
      const Tensor rows = flip(cat({input, input, input}, options.batch_dim), {options.batch_dim});
      const Tensor other = is_floating(input.dtype()) ? rows * 0.5 + 0.25 : rows;
      tensors.push_back({"input_2", other});
      tensors.push_back({"output_2", model(other).contiguous()});
    }
    io::save_safetensors((folder_ / (name + ".safetensors")).string(), tensors);
  }

  /// A module with several inputs and results.
  void detector() {
    const NoGradGuard no_grad;
    test::Detector net;
    nn::StateDict tensors;
    const auto add = [&](std::int64_t rows, const std::string& suffix) {
      const Tensor image = randn({rows, 6}), mask = randn({rows, 6});
      tensors.push_back({"image" + suffix, image});
      tensors.push_back({"mask" + suffix, mask});
      const test::Detections found = net(image, mask);
      each_tensor(found, [&](const std::string& name, const Tensor& y) {
        tensors.push_back({name + suffix, y});
      });
    };
    add(2, "");
    add(5, "_2");
    io::export_onnx(net, std::tuple(tensors["image"], tensors["mask"]), folder_ / "detector.onnx",
                    {.input_names = {"image", "mask"}});
    io::save_safetensors((folder_ / "detector.safetensors").string(), tensors);
  }

 private:
  std::filesystem::path folder_;
};

void write_networks(Writer& write, bool all) {
  const Tensor picture = randn({2, 3, 32, 32});
  write("mlp", nn::make_model("mlp"), randn({2, 1, 28, 28}));
  write("mnist_cnn", test::MnistCnn(), randn({2, 1, 28, 28}));
  write("resnet20_a", nn::make_model("resnet20"), picture);
  write("resnet20_b", nn::make_model("resnet20", {.shortcut = nn::Shortcut::b}), picture);
  write("resnet20_fixed", nn::make_model("resnet20"), picture, {.dynamic_batch = false});
  write("resnet110", nn::make_model("resnet110"), picture);
  write("resnet18", nn::make_model("resnet18"), picture);
  write("resnet18_imagenet", nn::ResNet(), randn({1, 3, 64, 64}));
  nn::AnyModule frozen = nn::make_model("resnet20");
  frozen.requires_grad_(false);
  write("resnet20_frozen", frozen, picture);
  write("vgg11_bn", nn::VGG({.depth = 11, .batch_norm = true, .num_classes = 7, .width = 0.0625}),
        picture);
  write("mobilenet_v2", nn::MobileNetV2({.num_classes = 7, .width_mult = 0.25}), picture);
  write("efficientnet", nn::EfficientNet({.num_classes = 7, .width_mult = 0.25, .depth_mult = 0.5}),
        picture);
  write("convnext",
        nn::ConvNeXt({.num_classes = 7,
                      .channels = {8, 16, 24, 32},
                      .blocks = {1, 1, 2, 1},
                      .layer_scale = 1}),
        picture);
  write("densenet", nn::DenseNet({.num_classes = 7, .growth_rate = 4, .blocks = {1, 2, 2, 2}}),
        picture);
  nn::VisionTransformer vit({.image_size = 32,
                             .patch_size = 8,
                             .num_layers = 2,
                             .num_heads = 2,
                             .hidden_dim = 16,
                             .mlp_dim = 32,
                             .num_classes = 7});
  nn::init::normal_(vit.heads.head.weight);  // it starts as 0
  write("vit", vit, picture);
  write("unet", nn::UNet({.num_classes = 2, .width = 4}), randn({2, 3, 18, 35}));
  if (!all) return;
  for (const char* name :
       {"resnet32", "resnet44", "resnet56", "resnet34", "resnet50", "resnet101", "resnet152"})
    write(name, nn::make_model(name), picture);
  write("resnet50_imagenet", nn::ResNet({.depth = 50}), randn({1, 3, 64, 64}));
}

void write_image_layers(Writer& write) {
  const Tensor x = randn({2, 6, 9, 7});
  write("conv2d",
        nn::Conv2d(6, 9, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = 2, .groups = 3}),
        x);
  write("conv1d", nn::Conv1d(6, 4, 3, {.stride = 2, .padding = 1}), randn({2, 6, 11}));
  write("conv3d",
        nn::Conv3d(4, 6, {3, 2, 2}, {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .groups = 2}),
        randn({2, 4, 5, 6, 4}));
  write("conv_transpose1d",
        nn::ConvTranspose1d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1}),
        randn({2, 4, 5}));
  write("conv_transpose2d",
        nn::ConvTranspose2d(
            6, 4, 3, {.stride = {2, 3}, .padding = 1, .output_padding = {1, 2}, .groups = 2}),
        x);
  write("batch_norm1d", nn::BatchNorm1d(5), randn({3, 5}));
  write("batch_norm1d_sequence", nn::BatchNorm1d(5, {.affine = false}), randn({3, 5, 4}));
  write("group_norm", nn::GroupNorm(3, 6), x);
  write("layer_norm", nn::LayerNorm({9, 7}, {.eps = 1e-3}), x);
  write("layer_norm_plain", nn::LayerNorm(7, {.elementwise_affine = false}), x);
  write("max_pool2d", nn::MaxPool2d(3, {.stride = 2, .padding = 1}), x);
  write("max_pool2d_ceil", nn::MaxPool2d(2, {.ceil_mode = true}), x);
  write("avg_pool2d", nn::AvgPool2d({3, 2}, {.stride = 2, .padding = 1}), x);
  write("avg_pool2d_ceil", nn::AvgPool2d(3, {.stride = 3, .padding = 1, .ceil_mode = true}),
        randn({2, 6, 9, 8}));
  write(
      "avg_pool2d_exclude",
      nn::AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}),
      randn({2, 6, 8, 8}));
  write("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d(1), x);
  write("adaptive_avg_pool2d_even", nn::AdaptiveAvgPool2d({3, 7}), x);
  write("adaptive_avg_pool2d_uneven", nn::AdaptiveAvgPool2d({4, 3}), x);
  write("upsample", nn::Upsample({.scale_factor = {3}}), x);
  write("padding",
        nn::Sequential(nn::ConstantPad2d({1, 0, -1, 2}, 0.5), nn::ReflectionPad2d(2),
                       nn::Conv2d(6, 4, 3, {.padding = 1, .padding_mode = PadMode::circular}),
                       nn::Conv2d(4, 4, 2, {.same_padding = true}), nn::PixelShuffle(2)),
        x);
  write("composed_norms",
        nn::Sequential(nn::InstanceNorm2d(6, {.affine = true}), nn::LocalResponseNorm(3),
                       nn::RMSNorm(7)),
        x);
  write("composed_pools",
        nn::Sequential(nn::MaxPool2d(2, {.stride = 1, .dilation = 2}),
                       nn::LPPool2d(2, 2, {.stride = 1}), nn::AdaptiveMaxPool2d({3, 2}),
                       nn::Unfold(2), nn::AvgPool1d(2)),
        x);
  write("avg_pool2d_divisor",
        nn::AvgPool2d(3, {.stride = 2, .ceil_mode = true, .divisor_override = 4}), x);
  write("upsample_bilinear", nn::Upsample({.scale_factor = {2.5, 2}, .mode = "bilinear"}), x);
  write("interpolate", Lambda([](const Tensor& x) {
          const Tensor y = interpolate(x, {.size = {5, 11}, .mode = "bilinear"});
          return interpolate(y, {.scale_factor = 2, .mode = "bicubic"});
        }),
        x);
  write("composed_upsample",
        nn::Sequential(nn::Conv2d(6, 8, 3), nn::SiLU(), nn::Upsample({.scale_factor = {2}}),
                       nn::Conv2d(8, 2, 1)),
        x);
}

void write_other_layers(Writer& write) {
  const Tensor x = randn({4, 6}) * 2.0;
  write("linear", nn::Linear(6, 5), x);
  write("linear_plain", nn::Linear(6, 5, {.bias = false}), randn({2, 3, 6}));
  write(
      "linear_with_activations",
      nn::Sequential(WithActivation(6, Activation::relu), WithActivation(6, Activation::gelu_tanh)),
      x);
  nn::Sequential wide(nn::Linear(6, 5), nn::Tanh(), nn::Linear(5, 2));
  wide.to(f64);
  write("linear_f64", wide, x.to(f64));
  write("relu", nn::ReLU(), x);
  write("leaky_relu", nn::LeakyReLU(0.2), x);
  write("gelu", nn::GELU(), x);
  write("gelu_tanh", nn::GELU(GeluApproximation::tanh), x);
  write("silu", nn::SiLU(), x);
  write("sigmoid", nn::Sigmoid(), x);
  write("tanh", nn::Tanh(), x);
  write("softmax", nn::Softmax(0), x, {.batch_dim = 1});
  write("composed_activations",
        nn::Sequential(nn::ELU(2), nn::PReLU(6), nn::Hardswish(), nn::Mish(), nn::LogSigmoid(),
                       nn::Softshrink(0.1), nn::Softsign(), nn::GLU()),
        x);
  write("dropout", nn::Sequential(nn::Dropout(0.5), nn::Linear(6, 2)), x);
  write("log_softmax", nn::Sequential(nn::Flatten(), nn::LogSoftmax(-1)), randn({2, 3, 4}));
  write("embedding", nn::Sequential(nn::Embedding(9, 4), nn::Linear(4, 3)), randint(0, 9, {3, 5}));
  write("embedding_column", nn::Embedding(9, 4), randint(0, 9, {3, 1}));
  write("attention", nn::MultiheadAttention(8, 2, {.batch_first = true}), randn({2, 5, 8}));
  write("transformer",
        nn::TransformerEncoder(nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 16}), 2),
        randn({5, 2, 8}), {.batch_dim = 1});
  write("language_model", LanguageModel(), randint(0, 11, {2, 7}));
  write("rnn", nn::RNN(4, 5, {.nonlinearity = nn::RNNNonlinearity::relu}), randn({6, 2, 4}),
        {.batch_dim = 1});
  write("lstm_projected", nn::LSTM(4, 5, {.proj_size = 3}), randn({6, 2, 4}), {.batch_dim = 1});
  write("lstm", nn::LSTM(4, 5, {.num_layers = 2, .bidirectional = true}), randn({6, 2, 4}),
        {.batch_dim = 1});
  write("gru", nn::GRU(4, 5, {.batch_first = true}), randn({2, 6, 4}));
}

void write_functions(Writer& write) {
  const auto function = [&](const std::string& name, std::function<Tensor(const Tensor&)> f) {
    write("f_" + name, Lambda(std::move(f)), randn({2, 3, 4}));
  };
  function("identity", [](const Tensor& x) { return x; });
  function("arithmetic", [](const Tensor& x) {
    return add(x * 2.0, 1.0 / (x.abs() + 1.5), 0.5) - sub(x, square(x), 3.0) / 4.0 +
           fmod(x * 3.0, x.abs() + 0.7);
  });
  function("unary", [](const Tensor& x) {
    const Tensor p = x.abs() + 1.0;
    return p.log() + p.sqrt() + rsqrt(p) + reciprocal(p) + (-x).exp() + erf(x) + sin(x) + cos(x) +
           atan(x) + softplus(x) + sign(x) + floor(x) + ceil(x) + round(x * 3.0);
  });
  function("powers", [](const Tensor& x) { return (x.abs() + 0.1).pow(1.5) + pow(x.abs(), x); });
  function("pairs", [](const Tensor& x) {
    return hypot(x, x + 1.0) + logaddexp(x, x * -0.5) + softplus(x, 2, 20) + roll(x, 1, 2) +
           glu(x.repeat({1, 1, 2}), 2);
  });
  function("extremes", [](const Tensor& x) {
    return maximum(x, x * -0.5) + minimum(x, -x) + clamp(x, -0.5, 0.75) +
           clamp(x, 0, std::numeric_limits<double>::infinity());
  });
  function("reductions", [](const Tensor& x) {
    return x.sum({1}, true) + x.mean({0, 2}).unsqueeze(1) * x + max(x, 2, true).values -
           min(x, 1, true).values + logsumexp(x, {2}, true) + norm(x, {1}, true) + x.sum() +
           x.mean() + max(x) + cumsum(x, 2);
  });
  function("variances", [](const Tensor& x) {
    return var(x, {2}, 1, true) + rondo::std(x, {1, 2}).reshape({x.size(0), 1, 1}) * x +
           var(x, {0}, 0);
  });
  function("parts", [](const Tensor& x) {
    const Tensors rows = unbind(x, 1), halves = chunk(x, 2, 2);
    const Tensor swapped = cat({stack({rows[2], rows[0]}, 1), x.flip({1, 2}).narrow(1, 1, 2)}, 2);
    return matmul(swapped, swapped.transpose(1, 2)) + halves[1].select(1, 0).unsqueeze(1) +
           slice(x, 2, 1, 4, 2).narrow(1, 0, 2);
  });
  function("batch_in_two_sizes", [](const Tensor& x) {  // the same shape: it has to be computed
    const Tensor rows = x.reshape({x.size(0) * 3, 4});
    return rows.unsqueeze(1).expand({-1, x.size(0), 4}).reshape({x.size(0), 3, x.size(0), 4});
  });
  function("masks", [](const Tensor& x) {
    const Tensor mask = gt(arange(12).reshape({3, 4}), 5);
    return where(mask, x, 0.5) + masked_fill(x, mask, -2.0) + x * arange(4) +
           x * zeros({x.size(0), 1, 1}) + index_select(x, 2, tensor<std::int64_t>({3, 0, 0, 1})) +
           gather(x, 1, zeros({x.size(0), 3, 4}, {.dtype = i64}));
  });
  function("attention", [](const Tensor& x) {
    return scaled_dot_product_attention(x, x, x, {.is_causal = true});
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc >= 2, "write_models FOLDER [--all]");
    manual_seed(1);
    std::filesystem::create_directories(argv[1]);
    Writer write(argv[1]);
    write_networks(write, argc > 2 && std::string(argv[2]) == "--all");
    write_image_layers(write);
    write_other_layers(write);
    write.detector();
    write_functions(write);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
