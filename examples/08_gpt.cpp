// 08_gpt: trains a small GPT on the characters of a text, and lets it write. The whole loop, on one
// rank or on several:
//
//   build/bin/08_gpt --data book.txt
//   mpirun -np 2 build/bin/08_gpt --data book.txt --steps 2000
//
// - Training: AdamW with a linear warm-up and a cosine schedule. In each step all ranks draw the
//   same windows of the text, and each rank computes its share of them. So the ranks together do
//   what one rank would do, up to rounding.
// - Generation: nn::generate draws one character after another from the model's distribution. It
//   keeps the keys and values of earlier characters, and reads each character once.
//
// 05_text builds such a model from nn's layers. Read next: nn/models/gpt2.cpp and nn/generate.cpp.

#include <rondo/rondo.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "extras/command_line.h"
#include "tensor/printable.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

struct Settings {
  std::string data;
  std::int64_t steps = 1000, every = 100, batch = 32, context = 64, width = 96, layers = 4,
               heads = 4, sample = 300, top_k = 0, seed = 1;
  double lr = 3e-3, dropout = 0, temperature = 0.8;
};

/// A text as numbers: number i stands for the character alphabet[i].
struct Text {
  std::string alphabet;
  Tensor tokens;  // i64 (length)

  explicit Text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    rd::require<rd::IoError>(in.good(), "--data: ", path, " cannot be read");
    const std::string all(std::istreambuf_iterator<char>(in), {});
    const std::set<char> found(all.begin(), all.end());
    alphabet.assign(found.begin(), found.end());
    std::vector<std::int64_t> numbers;
    for (const char c : all) numbers.push_back(static_cast<std::int64_t>(alphabet.find(c)));
    tokens = rd::tensor(numbers);
  }
};

/// The mean cross-entropy, in nats per character, of windows (N, L + 1). The model predicts every
/// character of a window except the first.
Tensor loss_of(rd::dist::DistributedDataParallel& model, const Tensor& windows) {
  const std::int64_t length = windows.size(1) - 1;
  const Tensor logits = model(windows.narrow(1, 0, length));
  return cross_entropy(logits.flatten(0, 1), windows.narrow(1, 1, length).reshape({-1}));
}

/// Weight decay is for matrices. Biases and the weights of norms stay as they are.
std::vector<optim::ParamGroup<optim::AdamWOptions>> groups_of(nn::Module& net, double lr) {
  rd::Tensors matrices, vectors;
  for (const Tensor& p : net.parameters()) (p.dim() > 1 ? matrices : vectors).push_back(p);
  return {{matrices, {.lr = lr, .betas = {0.9, 0.95}, .weight_decay = 0.1}},
          {vectors, {.lr = lr, .betas = {0.9, 0.95}, .weight_decay = 0}}};
}

void train(nn::GPT2& net, const Text& text, const Settings& s,
           const std::shared_ptr<rd::dist::Communicator>& comm) {
  rd::dist::DistributedDataParallel ddp(net, comm);  // all ranks start with rank 0's weights
  optim::AdamW adam(groups_of(net, s.lr));
  const std::int64_t one = 1, warmup = std::max(s.steps / 10, one);
  auto rise = std::make_shared<optim::LinearLR>(
      adam, optim::LinearLROptions{.start_factor = 0.1, .total_iters = warmup});
  auto fall = std::make_shared<optim::CosineAnnealingLR>(
      adam, optim::CosineAnnealingLROptions{.t_max = std::max(s.steps - warmup, one),
                                            .eta_min = s.lr / 10});
  optim::SequentialLR schedule({rise, fall}, {warmup});

  rd::Generator windows_of(static_cast<std::uint64_t>(s.seed));  // the same on all ranks
  const std::int64_t share = s.batch / comm->world_size();
  const Tensor window = rd::arange(s.context + 1);
  const std::int64_t last = text.tokens.numel() - s.context - 1;
  Tensor sum = rd::zeros({});
  for (std::int64_t step = 1; step <= s.steps; ++step) {
    const Tensor starts = rd::randint(0, last + 1, {s.batch, 1}, {.dtype = rd::i64}, windows_of)
                              .narrow(0, comm->rank() * share, share);
    adam.zero_grad();
    const Tensor loss = loss_of(ddp, text.tokens[starts + window]);
    loss.backward();  // averages the gradients over the ranks while it still computes
    optim::clip_grad_norm_(net.parameters(), 1);
    adam.step();
    schedule.step();
    sum += loss.detach();
    const std::int64_t since = (step - 1) % s.every + 1;
    if (since < s.every && step < s.steps) continue;
    comm->all_reduce(sum, rd::dist::ReduceOp::avg);
    if (comm->rank() == 0)
      std::printf("step %ld: loss %.4f, learning rate %.2g\n", step,
                  sum.item() / static_cast<double>(since), adam.lr());
    std::fflush(stdout);
    sum.zero_();
  }
}

/// Generates `s.sample` characters after a line end. The model sees at most `s.context` characters,
/// so a longer text continues from the second half of what it has seen.
std::string written(nn::GPT2& net, const Text& text, const Settings& s) {
  const auto first = std::min(text.alphabet.find('\n'), text.alphabet.size() - 1);
  Tensor tokens = rd::full({1, 1}, static_cast<std::int64_t>(first), {.dtype = rd::i64});
  while (tokens.size(1) <= s.sample) {
    const std::int64_t seen = std::min(tokens.size(1), (s.context + 1) / 2);
    const Tensor longer = nn::generate(
        net, tokens.narrow(1, tokens.size(1) - seen, seen),
        {.max_new_tokens = s.context - seen + 1, .temperature = s.temperature, .top_k = s.top_k});
    tokens = rd::cat({tokens, longer.narrow(1, seen, longer.size(1) - seen)}, 1);
  }
  std::string out;
  for (const std::int64_t token : tokens[0].narrow(0, 1, s.sample).to_vector<std::int64_t>())
    out += text.alphabet[static_cast<std::size_t>(token)];
  return out;
}

int run(const Settings& s) {
  auto comm = rd::dist::init();
  rd::dist::use_threads(*comm);  // the ranks of one machine share its cores
  rd::require(s.batch % comm->world_size() == 0, "--batch ", s.batch, " is not divisible by the ",
              comm->world_size(), " ranks");
  const Text text(s.data);
  rd::require(text.tokens.numel() > s.context, "--data: ", text.tokens.numel(),
              " characters are too few for windows of ", s.context + 1);
  // The weights are equal on all ranks, and each rank has dropout of its own.
  rd::manual_seed(static_cast<std::uint64_t>(s.seed));
  nn::GPT2 net({.vocab_size = static_cast<std::int64_t>(text.alphabet.size()),
                .n_positions = s.context,
                .n_embd = s.width,
                .n_layer = s.layers,
                .n_head = s.heads,
                .resid_pdrop = s.dropout,
                .embd_pdrop = s.dropout,
                .attn_pdrop = s.dropout});
  rd::manual_seed(static_cast<std::uint64_t>(s.seed + comm->rank()));
  if (comm->rank() == 0)
    std::printf("%ld characters of %zu kinds, %ld parameters, ranks: %d\n", text.tokens.numel(),
                text.alphabet.size(), net.num_parameters(), comm->world_size());
  train(net, text, s, comm);
  if (comm->rank() == 0 && s.sample > 0)
    std::printf("---\n%s\n---\n", rd::printable(written(net, text, s), "\n\t").c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rd::flags;
  Settings s;
  CommandLine app("Trains a small GPT on the characters of a text, on one rank or several");
  app.add("--data", s.data, "the text, a file", existing_path());
  app.add("--steps", s.steps, "training steps", whole_number(1, 10'000'000));
  app.add("--every", s.every, "steps between two lines of output", whole_number(1, 10'000'000));
  app.add("--batch", s.batch, "windows in a step, of all ranks", whole_number(1, 4096));
  app.add("--context", s.context, "characters that the model sees", whole_number(1, 4096));
  app.add("--width", s.width, "features of a character", whole_number(1, 4096));
  app.add("--layers", s.layers, "number of layers", whole_number(1, 100));
  app.add("--heads", s.heads, "attention heads; must divide --width", whole_number(1, 4096));
  app.add("--lr", s.lr, "the highest learning rate", positive());
  app.add("--dropout", s.dropout, "the fraction of activations that are dropped",
          number_that([](double v) { return v >= 0 && v <= 1; }, "from 0 to 1"));
  app.add("--sample", s.sample, "characters to generate", whole_number(0, 1'000'000));
  app.add("--temperature", s.temperature, "0: always the likeliest character", not_negative());
  app.add("--top-k", s.top_k, "draw from the k likeliest characters; 0: from all",
          whole_number(0, 1'000'000));
  app.add("--seed", s.seed, "seed of the weights, the windows and the generated text",
          whole_number(0, ~std::uint64_t{0} / 4));
  if (auto status = app.parse(argc, argv)) return *status;
  return rd::dist::run([&] {  // an exception on one rank ends all ranks with one error message
    rd::require(!s.data.empty(), "--data: name a text file");
    return run(s);
  });
}
