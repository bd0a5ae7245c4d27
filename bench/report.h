#pragma once
// Shared by the benchmarks: the --json flag, and the models that some of them train.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "autograd/ops/shape.h"
#include "io/result_file.h"
#include "nn/batch_norm.h"
#include "nn/linear.h"
#include "nn/models/gpt2.h"
#include "nn/models/models.h"
#include "nn/recurrent.h"
#include "tensor/creation.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace rondo::bench {

/// Writes the result of a benchmark to the file of --json; `-` is standard output, and an empty
/// name writes nothing. Throws IoError naming the file.
inline void write_json(const nlohmann::json& result, const std::string& file) {
  io::write_result_file("--json", file, result.dump(file == "-" ? -1 : 2) + "\n");
}

/// Runs a benchmark after its flags are parsed, and returns the exit status. First checks that
/// --json can be written. After an error, or if the table could not be printed, prints one line and
/// returns 1.
inline int finish(const char* program, const std::string& json,
                  const std::function<void()>& measure) {
  try {
    io::check_result_file("--json", json);
    measure();
    require<IoError>(std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.flush(),
                     "standard output cannot be written");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << printable(error.what(), "\n") << "\n";
    return 1;
  }
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;  // as Python's statistics
}

/// Converts the weights to `dtype`. Statistics and affine factors of the normalisation stay f32.
inline void convert(nn::Module& model, DType dtype) {
  model.apply([&](nn::Module& module) {
    bool is_leaf = module.named_modules().size() == 1;
    if (is_leaf && dynamic_cast<nn::BatchNorm2d*>(&module) == nullptr) module.to(dtype);
  });
}

/// GPT2 with 4 layers, 256 features, 8 heads and 4,096 tokens; logits (N L, 4096).
struct LanguageModel : nn::Module {
  static constexpr std::int64_t vocabulary = 4096;
  nn::GPT2 gpt2;

  explicit LanguageModel(std::int64_t length)
      : gpt2({.vocab_size = vocabulary,
              .n_positions = length,
              .n_embd = 256,
              .n_layer = 4,
              .n_head = 8,
              .resid_pdrop = 0,
              .embd_pdrop = 0,
              .attn_pdrop = 0}) {}
  Tensor forward(const Tensor& tokens) override {
    return reshape(gpt2(tokens), {tokens.numel(), vocabulary});
  }
  void visit(nn::Visitor& v) override { v.child("gpt2", gpt2); }
};

/// An LSTM of two layers over (N, T, 512); logits from its last output.
struct SequenceClassifier : nn::Module {
  static constexpr std::int64_t width = 512;
  nn::LSTM lstm{width, width, {.num_layers = 2, .batch_first = true}};
  nn::Linear fc{width, 10};

  Tensor forward(const Tensor& x) override { return fc(lstm(x).select(1, -1)); }
  void visit(nn::Visitor& v) override {
    v.child("lstm", lstm);
    v.child("fc", fc);
  }
};

/// A network by name, and random images with classes, in the loader's memory layout. resnet50 has
/// ImageNet's shapes, the others are for small images. "lm512" is a LanguageModel of 512 tokens,
/// "lstm64" a SequenceClassifier of 64 steps.
struct Workload {
  nn::AnyModule model;
  Tensor input, target;

  /// `hidden`: the width of "mlp".
  Workload(const std::string& name, std::int64_t batch, std::int64_t hidden = 512,
           bool grad_checkpointing = false) {
    if (name.starts_with("lm")) {
      const std::int64_t length = std::stoll(name.substr(2));
      model = LanguageModel(length);
      input = randint(0, LanguageModel::vocabulary, {batch, length});
      target = randint(0, LanguageModel::vocabulary, {batch * length});
      return;
    }
    if (name.starts_with("lstm")) {
      model = SequenceClassifier();
      input = randn({batch, std::stoll(name.substr(4)), SequenceClassifier::width});
      target = randint(0, 10, {batch});
      return;
    }
    const bool imagenet = name == "resnet50";
    const std::int64_t classes = imagenet ? 1000 : 10, side = imagenet ? 224 : 32;
    if (name == "mlp") {
      model = nn::Mlp({.hidden = hidden});
    } else {
      model = nn::make_model(name, {.num_classes = classes,
                                    .stem = imagenet ? nn::Stem::imagenet : nn::Stem::cifar,
                                    .grad_checkpointing = grad_checkpointing});
    }
    input = name == "mlp" ? randn({batch, 1, 28, 28})
                          : randn({batch, 3, side, side}).contiguous(MemoryFormat::channels_last);
    target = randint(0, classes, {batch});
  }
};

}  // namespace rondo::bench
