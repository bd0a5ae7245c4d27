// 09_lora: adapts a trained GPT to another text by LoRA (Hu et al. 2022): its weights W stay as
// they are, and each linear layer gets a product A B of two thin matrices, which is trained.
//
//   build/bin/09_lora --data book.txt --adapt letters.txt
//
// - LoraLinear below is all that LoRA needs. set_submodule puts one in place of each linear layer.
// - Only A and B are trained and saved: some percent of the model.
// - Afterwards W + A B replaces W, and the model is an ordinary GPT-2 again.
//
// Read next: nn/models/gpt2.h, nn/module.h (set_submodule), nn/select.h (freeze).

#include <rondo/rondo.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

struct Settings {
  std::string data, adapt, save = "lora.safetensors";
  std::int64_t steps = 300, batch = 16, context = 32, width = 64, layers = 2, rank = 4, seed = 1;
  double lr = 3e-3, scale = 2;
};

/// y = x W + b + scale (x A) B. B starts as 0, so the adapted model starts as the trained one.
struct LoraLinear : nn::Module {
  nn::GPT2Linear base;
  Tensor lora_A, lora_B;  // (in, rank), (rank, out)
  double scale;

  LoraLinear(const nn::GPT2Linear& base, std::int64_t rank, double scale)
      : base(base),
        lora_A(rd::randn({base.weight.size(0), rank}) * 0.02),
        lora_B(rd::zeros({rank, base.weight.size(1)})),
        scale(scale) {}
  Tensor forward(const Tensor& x) override {
    return base.forward(x) + matmul(matmul(x, lora_A), lora_B) * scale;
  }
  void visit(nn::Visitor& v) override {
    base.visit(v);  // the keys of W and b stay
    v.parameter("lora_A", lora_A);
    v.parameter("lora_B", lora_B);
  }
  nn::GPT2Linear merged() const {
    const rd::NoGradGuard no_grad;
    nn::GPT2Linear linear = base;
    linear.weight = base.weight + matmul(lora_A, lora_B) * scale;
    return linear;
  }
};

/// Replaces each module of type From by f(module).
template <class From, class F>
void replace_each(nn::Module& net, F f) {
  std::vector<std::pair<std::string, From*>> found;
  for (const auto& [path, module] : net.named_modules())
    if (auto* from = dynamic_cast<From*>(module)) found.emplace_back(path, from);
  for (const auto& [path, from] : found) net.set_submodule(path, f(*from));
}

/// The bytes of a file, i64 (length).
Tensor read_tokens(const std::string& path, std::int64_t context) {
  std::ifstream in(path, std::ios::binary);
  std::vector<std::int64_t> bytes;
  for (std::istreambuf_iterator<char> c(in), end; c != end; ++c)
    bytes.push_back(static_cast<unsigned char>(*c));
  rd::require<rd::IoError>(static_cast<std::int64_t>(bytes.size()) > context, path, ": ",
                           bytes.size(), " bytes are too few for windows of ", context + 1);
  return rd::tensor(bytes);
}

/// The mean cross-entropy of random windows, in nats per byte.
Tensor loss_of(nn::GPT2& net, const Tensor& tokens, const Settings& s) {
  const Tensor starts =
      rd::randint(0, tokens.numel() - s.context, {s.batch, 1}, {.dtype = rd::i64});
  const Tensor windows = tokens[starts + rd::arange(s.context + 1)];
  const Tensor logits = net(windows.narrow(1, 0, s.context));
  return cross_entropy(logits.flatten(0, 1), windows.narrow(1, 1, s.context).reshape({-1}));
}

double evaluate(nn::GPT2& net, const Tensor& tokens, const Settings& s) {
  const rd::NoGradGuard no_grad;
  rd::manual_seed(0);
  return loss_of(net, tokens, s).item();
}

void train(nn::GPT2& net, const Tensor& tokens, const Settings& s) {
  rd::optim::AdamW adam(nn::parameters_like(net, "*"), {.lr = s.lr});
  for (std::int64_t step = 0; step < s.steps; ++step) {
    adam.zero_grad();
    loss_of(net, tokens, s).backward();
    adam.step();
  }
}

void run(const Settings& s) {
  const Tensor first = read_tokens(s.data, s.context), second = read_tokens(s.adapt, s.context);
  rd::manual_seed(static_cast<std::uint64_t>(s.seed));
  nn::GPT2 net({.vocab_size = 256,
                .n_positions = s.context,
                .n_embd = s.width,
                .n_layer = s.layers,
                .n_head = 4,
                .resid_pdrop = 0,
                .embd_pdrop = 0,
                .attn_pdrop = 0});
  train(net, first, s);
  std::printf("trained on --data:  loss %.3f there, %.3f on --adapt\n", evaluate(net, first, s),
              evaluate(net, second, s));

  nn::freeze(net, "*");
  replace_each<nn::GPT2Linear>(
      net, [&](const nn::GPT2Linear& linear) { return LoraLinear(linear, s.rank, s.scale); });
  std::int64_t trained = 0;
  for (const Tensor& p : nn::parameters_like(net, "*")) trained += p.numel();
  std::printf("LoRA of rank %ld trains %ld of %ld parameters\n", s.rank, trained,
              net.num_parameters());
  train(net, second, s);
  const double adapted = evaluate(net, second, s);
  std::printf("trained on --adapt: loss %.3f there\n", adapted);

  nn::StateDict adapters = net.state_dict();
  std::erase_if(adapters, [](const auto& entry) { return !nn::matches(entry.name, "*.lora_?"); });
  rd::io::save_safetensors(s.save, adapters);
  std::printf("%zu tensors saved to %s\n", adapters.size(), s.save.c_str());

  replace_each<LoraLinear>(net, [](const LoraLinear& lora) { return lora.merged(); });
  std::printf("merged: %ld parameters, loss %.3f\n", net.num_parameters(),
              evaluate(net, second, s));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rd::flags;
  Settings s;
  CommandLine app("Trains a small GPT on one text, and adapts it to another by LoRA");
  app.add("--data", s.data, "the first text, a file", existing_path());
  app.add("--adapt", s.adapt, "the second text, a file", existing_path());
  app.add("--save", s.save, "the file of the adapters");
  app.add("--steps", s.steps, "training steps on each text", whole_number(1, 10'000'000));
  app.add("--rank", s.rank, "columns of A and rows of B", whole_number(1, 4096));
  app.add("--lr", s.lr, "learning rate", positive());
  app.add("--seed", s.seed, "seed of weights and windows", whole_number(0, ~std::uint64_t{0} / 4));
  if (auto status = app.parse(argc, argv)) return *status;
  return rd::dist::run([&] {  // an exception becomes an error message
    rd::require(!s.data.empty() && !s.adapt.empty(), "--data and --adapt: name two text files");
    run(s);
    return 0;
  });
}
