// export_onnx: the contents of the files, and what it refuses. (tests/extras/onnx/check.sh tests
// that ONNX Runtime computes the same as rondo.)

#include "extras/onnx/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "extras/quantization/prepare.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "nn/models/models.h"
#include "nn/norm.h"
#include "onnx.pb.h"
#include "support/any_forward.h"
#include "support/errors.h"
#include "support/files.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using io::onnx::GraphProto;
using io::onnx::ModelProto;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// A function as a module.
struct Lambda : nn::Module {
  std::function<Tensor(const Tensor&)> f;
  explicit Lambda(std::function<Tensor(const Tensor&)> f) : f(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return f(x); }
};

ModelProto exported(nn::Module& model, const Tensor& example, const io::OnnxOptions& options = {}) {
  const TemporaryFolder folder;
  io::export_onnx(model, example, folder / "model.onnx", options);
  EXPECT_EQ(folder.count(), 1);
  ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(read_file(folder / "model.onnx")));
  return proto;
}

/// The error of export_onnx for a function; it must leave no file.
std::string refusal_of(std::function<Tensor(const Tensor&)> f, const Tensor& example = ones({2, 3}),
                       const io::OnnxOptions& options = {}) {
  const TemporaryFolder folder;
  Lambda model(std::move(f));
  const std::string said =
      message_of([&] { io::export_onnx(model, example, folder / "model.onnx", options); });
  EXPECT_EQ(folder.count(), 0);
  return said;
}

std::vector<std::string> op_types(const GraphProto& graph) {
  std::vector<std::string> types;
  for (const auto& node : graph.node()) types.push_back(node.op_type());
  return types;
}

std::vector<std::string> initializers(const GraphProto& graph) {
  std::vector<std::string> names;
  for (const auto& tensor : graph.initializer()) names.push_back(tensor.name());
  return names;
}

/// "batch, 3, 4".
std::string shape_of(const io::onnx::ValueInfoProto& value) {
  std::string text;
  for (const auto& dim : value.type().tensor_type().shape().dim())
    text += (text.empty() ? "" : ", ") +
            (dim.has_dim_param() ? dim.dim_param() : std::to_string(dim.dim_value()));
  return text;
}

TEST(Onnx, SaysWhoWroteItAndWhatIsWhat) {
  nn::Sequential model(nn::Conv2d(3, 4, 3, {.stride = 2, .padding = 1, .bias = false}),
                       nn::BatchNorm2d(4, {.eps = 0.25}), nn::ReLU(), nn::Dropout(), nn::Flatten(),
                       nn::Linear(16, 5));
  const ModelProto proto = exported(model, zeros({7, 3, 4, 4}), {.metadata = {{"mean", "0.5"}}});
  EXPECT_EQ(proto.ir_version(), 8);
  EXPECT_EQ(proto.producer_name(), "rondo");
  ASSERT_EQ(proto.opset_import_size(), 1);
  EXPECT_EQ(proto.opset_import(0).version(), 17);
  EXPECT_EQ(proto.metadata_props(0).key(), "mean");
  EXPECT_EQ(proto.metadata_props(0).value(), "0.5");
  const GraphProto& graph = proto.graph();
  EXPECT_THAT(op_types(graph),
              ElementsAre("Conv", "BatchNormalization", "Relu", "Reshape", "Gemm"));
  EXPECT_THAT(initializers(graph),
              UnorderedElementsAre("0.weight", "1.weight", "1.bias", "5.weight", "5.bias",
                                   "1.running_mean", "1.running_var", "integers_-1_16"));
  EXPECT_EQ(graph.input(0).name(), "input");
  EXPECT_EQ(shape_of(graph.input(0)), "batch, 3, 4, 4");
  EXPECT_EQ(graph.output(0).name(), "output");
  EXPECT_EQ(shape_of(graph.output(0)), "batch, 5");
  EXPECT_EQ(graph.node(4).output(0), "output");
  const auto& conv = graph.node(0);
  EXPECT_EQ(conv.name(), "0.conv2d");
  EXPECT_THAT(conv.input(), ElementsAre("input", "0.weight"));
  std::map<std::string, std::vector<std::int64_t>> lists;
  for (const auto& a : conv.attribute()) lists[a.name()] = {a.ints().begin(), a.ints().end()};
  EXPECT_THAT(lists["strides"], ElementsAre(2, 2));
  EXPECT_THAT(lists["pads"], ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(graph.node(1).attribute(0).f(), 0.25F);
}

/// ONNX 17 has no group norm, so it is exported as a layer norm of each group.
TEST(Onnx, ComposesGroupNorm) {
  nn::Sequential model(nn::GroupNorm(2, 4));
  const auto types = op_types(exported(model, zeros({2, 4, 3, 3})).graph());
  EXPECT_EQ(std::count(types.begin(), types.end(), "LayerNormalization"), 1);
}

TEST(Onnx, HoldsTheElementsInRowMajorOrder) {
  nn::Linear model(2, 3, {.bias = false});
  model.weight.set_data(tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3}).t());  // dense but column-major
  const ModelProto proto = exported(model, zeros({1, 2}));
  const auto& weight = proto.graph().initializer(0);
  EXPECT_THAT(weight.dims(), ElementsAre(3, 2));
  const auto* elements = reinterpret_cast<const float*>(weight.raw_data().data());
  EXPECT_EQ(std::vector<float>(elements, elements + 6), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(Onnx, FixesTheBatchWhereAsked) {
  nn::Sequential model(nn::Flatten(), nn::Linear(6, 2));
  const ModelProto proto = exported(model, zeros({4, 2, 3}), {.dynamic_batch = false});
  EXPECT_EQ(shape_of(proto.graph().input(0)), "4, 2, 3");
  EXPECT_EQ(shape_of(proto.graph().output(0)), "4, 2");
}

TEST(Onnx, PutsTheModelBack) {
  nn::AnyModule model = nn::make_model("resnet20");
  model.train();
  model.as<nn::CifarResNet>().layer1.eval();
  model.as<nn::CifarResNet>().fc.requires_grad_(false);
  const auto state = default_generator().state();
  const std::vector<float> mean = model.named_buffers()[0].tensor.to_vector();
  exported(model, zeros({1, 3, 32, 32}));
  EXPECT_TRUE(model.is_training());
  EXPECT_FALSE(model.as<nn::CifarResNet>().layer1.is_training());
  EXPECT_FALSE(model.as<nn::CifarResNet>().fc.weight.requires_grad());
  EXPECT_TRUE(model.as<nn::CifarResNet>().conv1.weight.requires_grad());
  EXPECT_FALSE(model.as<nn::CifarResNet>().conv1.weight.grad().defined());
  EXPECT_EQ(default_generator().state(), state);
  EXPECT_EQ(model.named_buffers()[0].tensor.to_vector(), mean);
}

TEST(Onnx, WritesASharedWeightOnce) {
  nn::Linear layer(3, 3);
  nn::Sequential model(layer, nn::ReLU(), layer);
  const ModelProto proto = exported(model, zeros({2, 3}));
  EXPECT_THAT(initializers(proto.graph()), UnorderedElementsAre("0.weight", "0.bias"));
}

struct Named : nn::Module {
  Tensor input = ones({3}).requires_grad_();
  Tensor forward(const Tensor& x) override { return x * input; }
  void visit(nn::Visitor& v) override { v.parameter("input", input); }
};

TEST(Onnx, KeepsTheInputsNameForTheInput) {
  Named model;
  const ModelProto proto = exported(model, zeros({2, 3}));
  EXPECT_THAT(proto.graph().node(0).input(), ElementsAre("input", "input_1"));
  EXPECT_THAT(initializers(proto.graph()), ElementsAre("input_1"));
}

TEST(Onnx, ExpandsConstantsThatRepeatThemselvesAlongTheBatch) {
  Lambda model([](const Tensor& x) { return cat({x, zeros({x.size(0), 2})}, 1); });
  const ModelProto proto = exported(model, zeros({5, 3}));
  EXPECT_THAT(op_types(proto.graph()), ElementsAre("Shape", "Concat", "Expand", "Concat"));
  EXPECT_EQ(shape_of(proto.graph().output(0)), "batch, 5");
}

TEST(OnnxRefusals, NameOpAndModule) {
  struct Sorted : nn::Module {
    Tensor forward(const Tensor& x) override { return sort(x).values; }
  };
  const TemporaryFolder folder;
  nn::Sequential model(nn::Linear(3, 3), nn::Sequential(nn::ReLU(), Sorted()));
  EXPECT_ERROR(io::export_onnx(model, zeros({2, 3}), folder / "x.onnx"), Error,
               "export_onnx: 'sort' in 1.1 has no ONNX form in rondo");
  EXPECT_EQ(folder.count(), 0);
  EXPECT_THAT(refusal_of([](const Tensor& x) { return lgamma(x); }),
              HasSubstr("'lgamma' in the model has no ONNX form"));
  EXPECT_THAT(refusal_of([](const Tensor& x) { return (x * 1.0).add_(x); }),
              HasSubstr("'add_' in the model has no ONNX form"));
}

TEST(OnnxRefusals, OfAVarianceWhoseDivisorDependsOnTheBatch) {
  EXPECT_THAT(refusal_of([](const Tensor& x) { return var(x, {0}); }),
              HasSubstr("'var' in the model needs a constant size"));
}

TEST(OnnxRefusals, OfStatisticsOfTheBatch) {
  nn::Sequential model(nn::BatchNorm1d(3, {.track_running_stats = false}));
  const TemporaryFolder folder;
  EXPECT_ERROR(io::export_onnx(model, zeros({2, 3}), folder / "x.onnx"), Error,
               "'batch_norm' in 0 has no ONNX form in rondo");
}

std::string text_of(const google::protobuf::RepeatedPtrField<io::onnx::ValueInfoProto>& values) {
  std::string text;
  for (const auto& value : values)
    text += (text.empty() ? "" : "; ") + value.name() + " " + shape_of(value);
  return text;
}

TEST(Onnx, SeveralInputsAndResultsHaveNames) {
  const TemporaryFolder folder;
  const auto graph_of = [&](auto& model, const auto& example, const io::OnnxOptions& options) {
    io::export_onnx(model, example, folder / "model.onnx", options);
    ModelProto proto;
    EXPECT_TRUE(proto.ParseFromString(read_file(folder / "model.onnx")));
    return proto.graph();
  };
  Detector net;
  const auto example = std::tuple(randn({2, 6}), ones({2, 6}));
  GraphProto graph = graph_of(net, example, {.input_names = {"image", "mask"}});
  EXPECT_EQ(text_of(graph.input()), "image batch, 6; mask batch, 6");
  EXPECT_EQ(text_of(graph.output()), "scores batch, 3; boxes batch, 4; features.0 batch, 8");
  EXPECT_THAT(op_types(graph), ElementsAre("Mul", "Gemm", "Relu", "Gemm", "Gemm"));
  EXPECT_THAT(graph.node(0).input(), ElementsAre("image", "mask"));
  EXPECT_EQ(graph.node(2).output(0), "features.0");
  EXPECT_THAT(graph.node(4).input(), ElementsAre("features.0", "box.weight", "box.bias"));

  graph = graph_of(net, std::tuple(randn({2, 6}), ones({1, 6})),
                   {.output_names = {"a", "b", "c"}, .fixed_inputs = {"input_1"}});
  EXPECT_EQ(text_of(graph.input()), "input_0 batch, 6; input_1 1, 6");
  EXPECT_EQ(text_of(graph.output()), "a batch, 3; b batch, 4; c batch, 8");
}

struct TwiceOnnx : nn::ModuleOf<Tensors(Tensor, Tensor)> {
  Tensors forward(Tensor x, Tensor mask) override {
    const Tensor y = where(mask, x, -x);
    return {y, y, x};
  }
};
TEST(Onnx, AResultMayBeListedTwice) {
  const TemporaryFolder folder;
  TwiceOnnx twice;
  io::export_onnx(twice, std::tuple(randn({2, 3}), eq(ones({2, 3}), 1)), folder / "model.onnx");
  ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(read_file(folder / "model.onnx")));
  EXPECT_EQ(text_of(proto.graph().output()),
            "output_0 batch, 3; output_1 batch, 3; output_2 batch, 3");
  EXPECT_THAT(op_types(proto.graph()), ElementsAre("Neg", "Where", "Identity", "Identity"));
}

TEST(OnnxRefusals, OfNamesThatDoNotFit) {
  const TemporaryFolder folder;
  Detector net;
  const auto error_of = [&](const io::OnnxOptions& options) {
    return message_of([&] {
      io::export_onnx(net, std::tuple(randn({2, 6}), ones({2, 6})), folder / "x.onnx", options);
    });
  };
  EXPECT_THAT(error_of({.input_names = {"image"}}),
              HasSubstr("input_names has 1 names, but there are 2 tensors"));
  EXPECT_THAT(error_of({.output_names = {"y"}}),
              HasSubstr("output_names has 1 names, but there are 3 tensors"));
  EXPECT_THAT(error_of({.fixed_inputs = {"mask"}}),
              HasSubstr("fixed_inputs has \"mask\", but no input is called so"));
  EXPECT_EQ(folder.count(), 0);
}

TEST(OnnxRefusals, OfWhatTheTapeDoesNotShow) {
  const char* differs = "differs between inputs but does not come from recorded ops";
  EXPECT_THAT(refusal_of([](const Tensor& x) { return x + x.detach() * 2.0; }), HasSubstr(differs));
  EXPECT_THAT(refusal_of([](const Tensor& x) { return where(gt(x, 0), x, -x); }),
              HasSubstr(differs));
  EXPECT_THAT(refusal_of([](const Tensor& x) { return x / static_cast<double>(x.size(0)); }),
              HasSubstr("'div' in the model gets a tensor of shape []"));
  EXPECT_THAT(
      refusal_of([](const Tensor& x) { return x.detach(); }),
      HasSubstr("the result \"output\" does not depend on anything that gradients flow through"));
  EXPECT_THAT(refusal_of([](const Tensor& x) { return x.sum().item() == 6 ? x : relu(x); }),
              HasSubstr("ops for one input"));
}

/// Uses values of its input that it stored without recording.
TEST(OnnxRefusals, OfWritesThatAreNotRecorded) {
  const char* const unrecorded = "was written without recording";
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                const Tensor y = x * 2.0;
                y.detach().mul_(ones({1}) * 3.0);
                return y + 1.0;
              }),
              HasSubstr(unrecorded));
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                const Tensor y = x * 2.0;
                no_grad([&] { return y.zero_(); });
                return y;  // the output itself
              }),
              HasSubstr(unrecorded));
  EXPECT_THAT(refusal_of([](const Tensor& x) {
                x.detach().zero_();
                return x * 2.0;
              }),
              HasSubstr("forward overwrites its input"));
}

struct Remembering : nn::Module {
  Tensor memory = zeros({3});
  Tensor forward(const Tensor& x) override {
    no_grad([&] { return memory.copy_(x.detach()[0]); });
    return x + memory;
  }
};

TEST(OnnxRefusals, OfBuffersThatForwardOverwrites) {
  Remembering model;
  const TemporaryFolder folder;
  EXPECT_ERROR(io::export_onnx(model, zeros({2, 3}), folder / "x.onnx"), Error,
               "forward overwrites a buffer or a parameter that it computes with");
}

TEST(OnnxRefusals, OfSizesThatAreNoMultiplesOfTheBatch) {
  const auto all_pairs = [](const Tensor& x) {
    return x.unsqueeze(0).expand({x.size(0), -1, -1}).reshape({-1, 3});
  };
  EXPECT_THAT(refusal_of(all_pairs), HasSubstr("numbers or multiples of the batch"));
  EXPECT_THAT(refusal_of([](const Tensor& x) { return x.narrow(0, x.size(0) - 1, 1); }),
              HasSubstr("'narrow' in the model: its start depends on the batch"));
  Lambda model(all_pairs);
  const ModelProto fixed = exported(model, zeros({2, 3}), {.dynamic_batch = false});
  EXPECT_EQ(shape_of(fixed.graph().output(0)), "4, 3");
}

TEST(OnnxRefusals, OfNothing) {
  EXPECT_THAT(refusal_of([](const Tensor& x) { return x.narrow(1, 0, 0); }),
              HasSubstr("'narrow' in the model has no elements"));
  EXPECT_THAT(refusal_of([](const Tensor& x) { return relu(x); }, zeros({0, 3})),
              HasSubstr("the example [0, 3] has no elements"));
}

TEST(OnnxRefusals, OfOtherDtypes) {
  EXPECT_THAT(refusal_of([](const Tensor& x) { return x * 1.0; }, ones({2}, {.dtype = bf16})),
              HasSubstr("an example of bf16; inputs may be f32, f64, i64 and bool"));
  EXPECT_THAT(refusal_of([](const Tensor& x) { return x.to(f16).to(f32); }),
              HasSubstr("'to(dtype)' in the model is of f16"));
  nn::Linear half(3, 2);
  half.to(bf16);
  const TemporaryFolder folder;
  Lambda model([&](const Tensor& x) { return half(x.to(bf16)); });
  EXPECT_ERROR(io::export_onnx(model, zeros({2, 3}), folder / "x.onnx"), DTypeError, "bf16");
  nn::Sequential bytes(nn::Linear(3, 2));
  nn::quantize_dynamic(bytes);
  EXPECT_ERROR(io::export_onnx(bytes, zeros({2, 3}), folder / "x.onnx"), Error,
               "Int8Linear cannot be part of a graph of ops, such as ONNX: export before convert");
  nn::Embedding table(3, 2);
  EXPECT_ERROR(io::export_onnx(table, zeros({2, 3}, {.dtype = i64}), folder / "x.onnx"), Error,
               "the example has only zeros");
  EXPECT_EQ(folder.count(), 0);
}

/// A weight of nominally 3 GB that takes four bytes.
struct Huge : nn::Module {
  Tensor weight = zeros({1}).expand({750'000'000}).detach().requires_grad_();
  Tensor forward(const Tensor& x) override { return x + weight.narrow(0, 0, 3); }
  void visit(nn::Visitor& v) override { v.parameter("weight", weight); }
};

TEST(OnnxRefusals, OfMoreThanAProtocolBufferHolds) {
  Huge model;
  const TemporaryFolder folder;
  EXPECT_ERROR(io::export_onnx(model, zeros({2, 3}), folder / "huge.onnx"), IoError,
               "huge.onnx: would have more than 2 GB");
  EXPECT_EQ(folder.count(), 0);
}

TEST(OnnxRefusals, OfAFolderThatIsNotThere) {
  nn::Linear model(3, 2);
  const TemporaryFolder folder;
  EXPECT_ERROR(io::export_onnx(model, zeros({2, 3}), folder / "no" / "x.onnx"), IoError,
               "no/x.onnx");
}

TEST(OnnxRefusals, OfNamesThatAreEqualOrEmpty) {
  const test::TemporaryFolder folder;
  nn::Linear model(3, 2);
  EXPECT_ERROR(io::export_onnx(model, ones({2, 3}), folder / "x.onnx",
                               {.input_names = {"a"}, .output_names = {"a"}}),
               Error, "two inputs or outputs are called \"a\"");
  EXPECT_ERROR(io::export_onnx(model, ones({2, 3}), folder / "x.onnx", {.input_names = {""}}),
               Error, "the name of an input or output is empty");
}

// Masks and branches that the example and ordinary numbers do not show.
TEST(OnnxRefusals, OfMasksOfRareValues) {
  const test::TemporaryFolder folder;
  const auto refused = [&](std::function<Tensor(const Tensor&)> f) {
    Lambda model(std::move(f));
    return message_of([&] { io::export_onnx(model, ones({2, 3}), folder / "x.onnx"); });
  };
  EXPECT_THAT(refused([](const Tensor& x) { return where(gt(x, 100.0), 0.0, x * 2.0); }),
              HasSubstr("differs between inputs"));
  EXPECT_THAT(refused([](const Tensor& x) { return where(isnan(x), 0.0, x * 2.0); }),
              HasSubstr("differs between inputs"));
  EXPECT_THAT(refused([](const Tensor& x) { return where(eq(x, 0.0), 1.0, x * 2.0); }),
              HasSubstr("differs between inputs"));
  EXPECT_THAT(refused([](const Tensor& x) { return where(lt(x, 0.0), x * 0.1, x * 2.0); }),
              HasSubstr("differs between inputs"));
  EXPECT_NE(refused([](const Tensor& x) { return x.abs().max().item() > 100 ? x * 2.0 : x.exp(); }),
            "");
  EXPECT_EQ(folder.count(), 0);
}

// A forward that refuses unusual numbers can be exported; one that writes a parameter cannot.
TEST(OnnxRefusals, OfWritesForRareValues) {
  const test::TemporaryFolder folder;
  Lambda careful([](const Tensor& x) {
    if (!isfinite(x).all().item<bool>()) throw std::invalid_argument("x is not finite");
    return x * 2.0;
  });
  io::export_onnx(careful, ones({2, 3}), folder / "x.onnx");
  struct Observer : nn::Module {
    int way = 0;
    Tensor most = scalar(20), weight = ones({1});
    Tensor forward(const Tensor& x) override {
      {
        const NoGradGuard no_grad;
        const Tensor now = x.max();
        if (way == 0 && now.item() > most.item()) most.copy_(now);
        if (way == 1) most = maximum(most, now);
        if (way == 2 && now.item() > 100) weight.fill_(7);
      }
      return x * weight;
    }
    void visit(nn::Visitor& v) override {
      v.buffer("most", most);
      v.parameter("weight", weight);
    }
  };
  for (const int way : {0, 1, 2}) {
    Observer observer;
    observer.way = way;
    if (way < 2) {  // no part of the file
      io::export_onnx(observer, ones({2, 3}), folder / "y.onnx");
    } else {
      EXPECT_ERROR(io::export_onnx(observer, ones({2, 3}), folder / "z.onnx"), Error,
                   "forward overwrites a buffer or a parameter that it computes with");
    }
    EXPECT_EQ(observer.most.item(), 20) << way << ": it is as before";
    EXPECT_EQ(observer.weight.item(), 1) << way;
  }
}

}  // namespace
}  // namespace rondo::test
