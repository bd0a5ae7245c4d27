// A word-level language model: an LSTM that predicts the next word of a text, trained on windows of
// the text with truncated backpropagation through time.
//
//   build/bin/ports/word_language_model --data book.txt --words 50

#include <rondo/rondo.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>
#include <unordered_map>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

namespace {

/// The words of a text as numbers, with a word for each end of a line.
struct Corpus {
  std::vector<std::string> words;
  Tensor tokens;  // i64

  explicit Corpus(const std::string& path) {
    std::ifstream in(path);
    rd::require<rd::IoError>(in.good(), "--data: ", path, " cannot be read");
    std::unordered_map<std::string, std::int64_t> numbers;
    std::vector<std::int64_t> text;
    const auto add = [&](const std::string& word) {
      const auto [found, is_new] = numbers.emplace(word, std::ssize(words));
      if (is_new) words.push_back(word);
      text.push_back(found->second);
    };
    for (std::string line; std::getline(in, line);) {
      std::istringstream parts(line + " <eos>");
      for (std::string word; parts >> word;) add(word);
    }
    tokens = rd::tensor(text);
  }
};

/// Columns of equal length: the text goes on downwards.
Tensor in_columns(const Tensor& tokens, std::int64_t columns) {
  const std::int64_t rows = tokens.size(0) / columns;
  return tokens.narrow(0, 0, rows * columns).reshape({columns, rows}).t().contiguous();
}

struct Model : nn::Module {
  nn::Embedding encoder;
  nn::Dropout drop;
  nn::LSTM lstm;
  nn::Linear decoder;

  Model(std::int64_t words, std::int64_t width, std::int64_t layers, double dropout, bool tied)
      : encoder(words, width),
        drop(dropout),
        lstm(width, width, {.num_layers = layers, .dropout = dropout}),
        decoder(width, words) {
    nn::init::uniform_(encoder.weight, -0.1, 0.1);
    nn::init::uniform_(decoder.weight, -0.1, 0.1);
    nn::init::zeros_(decoder.bias);
    if (tied) decoder.weight = encoder.weight;
  }

  /// The logits (T, N, words), and the state after the last word.
  std::pair<Tensor, nn::LSTMState> read(const Tensor& tokens, const nn::LSTMState& state) {
    const nn::LSTMOutput out = lstm(drop(encoder(tokens)), state);
    return {decoder(drop(out.output)), out.state};
  }
  Tensor forward(const Tensor& tokens) override { return read(tokens, {}).first; }
  void visit(nn::Visitor& v) override {
    v.child("encoder", encoder);
    v.child("drop", drop);
    v.child("lstm", lstm);
    v.child("decoder", decoder);
  }
};

/// One pass over the text in windows of `window` words. The state goes on from window to window,
/// but gradients do not. Returns the mean loss; trains if there is an optimizer.
double pass(Model& model, const Tensor& text, std::int64_t window, optim::Optimizer* optimizer) {
  model.train(optimizer != nullptr);
  const rd::GradModeGuard grad(optimizer != nullptr);
  nn::LSTMState state;
  double sum = 0;
  for (std::int64_t at = 0; at + 1 < text.size(0); at += window) {
    const std::int64_t length = std::min(window, text.size(0) - 1 - at);
    auto [logits, next] = model.read(text.narrow(0, at, length), state);
    state = {next.h.detach(), next.c.detach()};
    const Tensor target = text.narrow(0, at + 1, length).reshape({-1});
    const Tensor loss = cross_entropy(logits.flatten(0, 1), target);
    if (optimizer != nullptr) {
      optimizer->zero_grad();
      loss.backward();
      optim::clip_grad_norm_(model.parameters(), 0.25);
      optimizer->step();
    }
    sum += loss.item() * static_cast<double>(length);
  }
  return sum / static_cast<double>(text.size(0) - 1);
}

void write_words(Model& model, const Corpus& corpus, std::int64_t count, double temperature) {
  const nn::EvalMode eval(model);
  const rd::NoGradGuard no_grad;
  nn::LSTMState state;
  Tensor word = rd::randint(0, std::ssize(corpus.words), {1, 1});
  for (std::int64_t i = 0; i < count; ++i) {
    auto [logits, next] = model.read(word, state);
    state = next;
    word = multinomial(softmax(logits.reshape({1, -1}) / temperature, 1), 1);
    const std::string& text = corpus.words[static_cast<std::size_t>(word.item<std::int64_t>())];
    std::printf("%s%s", text == "<eos>" ? "" : text.c_str(), text == "<eos>" ? "\n" : " ");
  }
  std::printf("\n");
}

int run(int argc, char** argv) {
  std::string data;
  int epochs = 40;
  std::int64_t width = 200, layers = 2, batch = 20, window = 35, words = 0;
  double lr = 20, dropout = 0.2, temperature = 1;
  bool tied = false;
  rd::flags::CommandLine line("An LSTM that predicts the next word of a text.");
  line.add("--data", data, "the text; its last tenth is for validation",
           rd::flags::existing_path());
  line.add("--epochs", epochs, "passes over the text", rd::flags::count());
  line.add("--width", width, "features of a word and of the state", rd::flags::count());
  line.add("--layers", layers, "layers of the LSTM", rd::flags::count());
  line.add("--batch", batch, "places of the text that are read at once", rd::flags::count());
  line.add("--window", window, "words through which gradients flow", rd::flags::count());
  line.add("--lr", lr, "learning rate; divided by 4 if the validation gets no better");
  line.add("--dropout", dropout, "fraction of the features that are dropped");
  line.add("--tied", tied, "the decoder has the weights of the embedding");
  line.add("--words", words, "write so many words at the end");
  line.add("--temperature", temperature, "higher: more surprising words", rd::flags::positive());
  if (const auto status = line.parse(argc, argv)) return *status;
  rd::require(!data.empty(), "--data: name a text file");

  rd::manual_seed(1111);
  const Corpus corpus(data);
  const std::int64_t all = corpus.tokens.size(0), kept = all - all / 10;
  const Tensor train = in_columns(corpus.tokens.narrow(0, 0, kept), batch),
               validation = in_columns(corpus.tokens.narrow(0, kept, all - kept), 1);
  Model model(std::ssize(corpus.words), width, layers, dropout, tied);
  optim::SGD sgd(model.parameters(), {.lr = lr});
  double best = std::numeric_limits<double>::infinity();
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const double loss = pass(model, train, window, &sgd);
    const double valid = pass(model, validation, window, nullptr);
    std::printf("epoch %d: loss %.4f, validation %.4f, perplexity %.2f\n", epoch, loss, valid,
                std::exp(valid));
    if (valid >= best) sgd.set_lr(sgd.lr() / 4);
    best = std::min(best, valid);
  }
  if (words > 0) write_words(model, corpus, words, temperature);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
