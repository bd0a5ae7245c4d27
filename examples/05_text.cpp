// 05_text: a language model of single characters.
//
//   build/bin/05_text                          # trains a Transformer on rondo's documentation
//   build/bin/05_text --model lstm --steps 3000
//   build/bin/05_text --text book.txt --context 128 --width 128 --device cuda
//
// A text is a sequence of characters. The model predicts each character from those before it.
//
// - Training: the model makes all predictions of a window at once. The Transformer's attention has
//   a causal mask, so that no prediction depends on later characters. An LSTM or GRU reads from
//   left to right and needs no mask.
// - Evaluation: the cross-entropy on text that was not used for training, in bits per character. A
//   random guess among V characters needs log2 V bits. Shannon estimated about 1 bit for English.
// - Generation: the model predicts the next character, the program draws one from that distribution
//   and appends it, and so on.
//
// Read nn/transformer.h and nn/recurrent.h next.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "dist/launch/init.h"
#include "extras/command_line.h"
#include "nn/embedding.h"
#include "nn/init.h"
#include "nn/recurrent.h"
#include "nn/transformer.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/one_cycle.h"
#include "tensor/creation.h"
#include "tensor/printable.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

struct Settings {
  std::string model = "transformer", text = "docs";
  std::int64_t steps = 1500, every = 100, batch = 16, context = 64, width = 64, layers = 2,
               heads = 4;
  std::int64_t sample = 300, seed = 1;
  double lr = 6e-3, dropout = 0, temperature = 0.8;
  rd::Device device;
};

/// The contents of a file, or of all .md files of a folder and of those below it.
std::string read(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files = {path};
  if (std::filesystem::is_directory(path)) {
    files.clear();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.path().extension() == ".md") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  }
  std::string all;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    rd::require<rd::IoError>(in.good(), "--text: ", file.string(), " cannot be read");
    all.append(std::istreambuf_iterator<char>(in), {});
  }
  return all;
}

/// Characters as numbers. The last tenth of the text is for validation.
struct Text {
  std::string alphabet;  // number i stands for the character alphabet[i]
  std::vector<std::int64_t> train, valid;

  Text(const std::string& all, std::int64_t context) {
    const std::set<char> found(all.begin(), all.end());
    alphabet.assign(found.begin(), found.end());
    std::vector<std::int64_t> numbers;
    for (const char c : all) numbers.push_back(static_cast<std::int64_t>(alphabet.find(c)));
    const auto cut = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 10 * 9);
    train.assign(numbers.begin(), cut);
    valid.assign(cut, numbers.end());
    rd::require(static_cast<std::int64_t>(valid.size()) > context, "--text: ", all.size(),
                " characters are too few for windows of ", context);
  }
};

/// Returns (N, length): one row of `length` characters for each of the N positions in `starts`.
Tensor rows(const std::vector<std::int64_t>& text, const std::vector<std::size_t>& starts,
            std::int64_t length, rd::Device device) {
  std::vector<std::int64_t> all;
  for (const std::size_t start : starts) {
    const auto first = text.begin() + static_cast<std::ptrdiff_t>(start);
    all.insert(all.end(), first, first + length);
  }
  return rd::tensor(all, {static_cast<std::int64_t>(starts.size()), length}).to(device);
}

/// Adds an embedding of each character to an embedding of its position, applies causal attention
/// layers, and returns logits (N, L, alphabet) of the next characters.
struct Transformer : nn::Module {
  nn::Embedding characters, places;
  nn::Dropout dropout;
  nn::TransformerEncoder encoder;
  nn::Linear head;

  Transformer(std::int64_t alphabet, const Settings& s)
      : characters(alphabet, s.width),
        places(s.context, s.width),
        dropout(s.dropout),
        encoder(nn::TransformerEncoderLayer(s.width, s.heads,
                                            {.dim_feedforward = 4 * s.width,
                                             .dropout = s.dropout,
                                             .batch_first = true,
                                             .norm_first = true}),
                s.layers, nn::LayerNorm(s.width)),
        head(s.width, alphabet) {
    // With PyTorch's default, N(0, 1), the embeddings would be far larger than the layers' outputs
    // that are added to them.
    nn::init::normal_(characters.weight, 0, 0.05);
    nn::init::normal_(places.weight, 0, 0.05);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor place = places(rd::arange(x.size(1), {.dtype = rd::i64, .device = x.device()}));
    return head(encoder(dropout(characters(x) + place), {.is_causal = true}));
  }
  void visit(nn::Visitor& v) override {
    v.child("characters", characters);
    v.child("places", places);
    v.child("dropout", dropout);
    v.child("encoder", encoder);
    v.child("head", head);
  }
};

/// The same with recurrent layers (LSTM or GRU) instead of attention.
template <class R>
struct RecurrentModel : nn::Module {
  nn::Embedding characters;
  R layers;
  nn::Dropout dropout;
  nn::Linear head;

  RecurrentModel(std::int64_t alphabet, const Settings& s)
      : characters(alphabet, s.width),
        layers(s.width, 2 * s.width,
               {.num_layers = s.layers, .batch_first = true, .dropout = s.dropout}),
        dropout(s.dropout),
        head(2 * s.width, alphabet) {}
  Tensor forward(const Tensor& x) override { return head(dropout(layers(characters(x)))); }
  void visit(nn::Visitor& v) override {
    v.child("characters", characters);
    v.child("layers", layers);
    v.child("dropout", dropout);
    v.child("head", head);
  }
};

nn::AnyModule make(std::int64_t alphabet, const Settings& s) {
  if (s.model == "lstm") return RecurrentModel<nn::LSTM>(alphabet, s);
  if (s.model == "gru") return RecurrentModel<nn::GRU>(alphabet, s);
  return Transformer(alphabet, s);
}

/// The mean cross-entropy in nats per character. `windows` is (N, L + 1). The model predicts every
/// character of a window except the first.
Tensor loss_of(nn::Module& model, const Tensor& windows) {
  const std::int64_t length = windows.size(1) - 1;
  const Tensor logits = model(windows.narrow(1, 0, length));
  return cross_entropy(reshape(logits, {-1, logits.size(-1)}),
                       reshape(windows.narrow(1, 1, length), {-1}));
}

/// The mean cross-entropy of a text in bits per character. The text is cut into windows, and the
/// model sees only the window, so the first characters of a window have little context.
double bits(nn::Module& model, const std::vector<std::int64_t>& text, const Settings& s) {
  const rd::NoGradGuard no_grad;
  model.eval();
  const auto length = static_cast<std::size_t>(s.context);
  double sum = 0;
  std::size_t count = 0;
  std::vector<std::size_t> starts;
  for (std::size_t start = 0; start + length < text.size(); start += length) {
    starts.push_back(start);
    const bool is_last = start + 2 * length >= text.size();
    if (!is_last && starts.size() < 32) continue;
    const double nats = loss_of(model, rows(text, starts, s.context + 1, s.device)).item<double>();
    sum += nats * static_cast<double>(starts.size());
    count += starts.size();
    starts.clear();
  }
  model.train();
  return sum / static_cast<double>(count) / std::log(2.0);
}

void train(nn::Module& model, const Text& text, const Settings& s) {
  optim::AdamW adam(model.parameters(), {.lr = s.lr, .weight_decay = 0.01});
  optim::OneCycleLR schedule(
      adam, {.max_lr = s.lr, .total_steps = s.steps, .pct_start = 0.1, .cycle_momentum = false});
  std::mt19937_64 random(static_cast<std::uint64_t>(s.seed));
  const std::size_t last = text.train.size() - static_cast<std::size_t>(s.context) - 1;
  const auto start = std::chrono::steady_clock::now();
  double sum = 0;
  for (std::int64_t step = 1; step <= s.steps; ++step) {
    std::vector<std::size_t> starts(static_cast<std::size_t>(s.batch));
    for (std::size_t& at : starts) at = random() % (last + 1);
    adam.zero_grad();
    const Tensor loss = loss_of(model, rows(text.train, starts, s.context + 1, s.device));
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1);
    adam.step();
    if (step < s.steps) schedule.step();
    sum += loss.item<double>();
    const std::int64_t since = (step - 1) % s.every + 1;
    if (since < s.every && step < s.steps) continue;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("step %lld: %.3f bits per character, on the validation text %.3f, after %.1f s\n",
                static_cast<long long>(step), sum / static_cast<double>(since) / std::log(2.0),
                bits(model, text.valid, s), seconds.count());
    std::fflush(stdout);
    sum = 0;
  }
}

/// Generates `s.sample` characters. The first input is a line end.
std::string written(nn::Module& model, const Text& text, const Settings& s) {
  const rd::NoGradGuard no_grad;
  model.eval();
  std::vector<std::int64_t> all = {
      static_cast<std::int64_t>(std::min(text.alphabet.find('\n'), text.alphabet.size() - 1))};
  std::string out;
  while (static_cast<std::int64_t>(out.size()) < s.sample) {
    const auto seen = std::min(static_cast<std::int64_t>(all.size()), s.context);
    const Tensor logits =
        model(rows(all, {all.size() - static_cast<std::size_t>(seen)}, seen, s.device));
    const Tensor p = softmax(logits[0][seen - 1] / s.temperature, 0);
    // Draws a character: the first at which the sum of the probabilities exceeds a random number.
    double left = rd::rand({}).item<double>();
    std::int64_t next = 0;
    for (const double each : p.to_vector<double>()) {
      left -= each;
      if (left < 0) break;
      ++next;
    }
    next = std::min(next, static_cast<std::int64_t>(text.alphabet.size()) - 1);
    all.push_back(next);
    out += text.alphabet[static_cast<std::size_t>(next)];
  }
  return out;
}

int run(int argc, char** argv) {
  Settings s;
  rd::flags::CommandLine app("Trains a character-level language model, and generates text");
  app.add("--model", s.model, "the network", rd::flags::one_of({"transformer", "lstm", "gru"}));
  app.add("--text", s.text, "a file, or a folder whose .md files are read",
          rd::flags::existing_path());
  app.add("--steps", s.steps, "training steps", rd::flags::whole_number(1, 10'000'000));
  app.add("--every", s.every, "steps between two lines of output",
          rd::flags::whole_number(1, 10'000'000));
  app.add("--batch", s.batch, "windows per step", rd::flags::whole_number(1, 4096));
  app.add("--context", s.context, "characters per window", rd::flags::whole_number(1, 4096));
  app.add("--width", s.width, "width of the Transformer; an LSTM or GRU is twice as wide",
          rd::flags::whole_number(1, 4096));
  app.add("--layers", s.layers, "number of layers", rd::flags::whole_number(1, 100));
  app.add("--heads", s.heads, "attention heads of the Transformer; must divide --width",
          rd::flags::whole_number(1, 4096));
  app.add("--lr", s.lr, "the highest learning rate", rd::flags::positive());
  app.add("--dropout", s.dropout, "the fraction of activations that are dropped",
          rd::flags::number_that([](double v) { return v >= 0 && v <= 1; }, "from 0 to 1"));
  app.add("--sample", s.sample, "characters to generate", rd::flags::whole_number(0, 1'000'000));
  app.add("--temperature", s.temperature, "below 1: likely characters become likelier",
          rd::flags::positive());
  app.add("--seed", s.seed, "seed of the weights, the windows and the generated text",
          rd::flags::whole_number(0, ~std::uint64_t{0} / 2));
  std::string device = "cpu";
  app.add("--device", device, "cpu, cuda or cuda:N");
  if (auto status = app.parse(argc, argv)) return *status;
  s.device = rd::Device::parse(device);
  const Text text(read(s.text), s.context);
  rd::manual_seed(static_cast<std::uint64_t>(s.seed));
  nn::AnyModule model = make(static_cast<std::int64_t>(text.alphabet.size()), s);
  model.to(s.device);
  std::printf("%zu bytes for training, %zu for validation, %zu kinds: %.3f bits each\n",
              text.train.size(), text.valid.size(), text.alphabet.size(),
              std::log2(static_cast<double>(text.alphabet.size())));
  std::printf("%s with %lld parameters\n", s.model.c_str(),
              static_cast<long long>(model.num_parameters()));
  train(model, text, s);
  if (s.sample > 0)
    std::printf("---\n%s\n---\n", rd::printable(written(model, text, s), "\n\t").c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return rd::dist::run([&] { return run(argc, argv); });
}
