// PyTorch's tutorial "Classifying Names with a Character-Level RNN": which language is a name from?
//
//   build/bin/ports/char_rnn --data data/names
//
// The folder has a file for each language (Italian.txt, …) with a name in each line: data/names of
// https://download.pytorch.org/tutorial/data.zip, or your own.

#include <rondo/rondo.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

const std::string all_letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;'";

struct Names {
  std::vector<std::string> categories;
  std::vector<std::vector<std::string>> lines;  // of each category
};

/// `text` without what is not in all_letters.
std::string known_letters(std::string text) {
  std::erase_if(text, [](char c) { return all_letters.find(c) == std::string::npos; });
  return text;
}

/// Reads the text files of a folder.
Names read_names(const std::string& folder) {
  rd::require(std::filesystem::is_directory(folder), "--data: ", folder, " is not a folder");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  std::sort(files.begin(), files.end());
  Names names;
  for (const auto& file : files) {
    std::vector<std::string> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      line = known_letters(line);
      if (!line.empty()) lines.push_back(line);
    }
    if (lines.empty()) continue;
    names.categories.push_back(file.stem().string());
    names.lines.push_back(lines);
  }
  rd::require(!names.categories.empty(), "--data: ", folder, " contains no names");
  return names;
}

/// One-hot vectors of the letters: (length, 1, letters).
Tensor tensor_of(const std::string& name) {
  std::vector<std::int64_t> letters;
  for (const char c : name) letters.push_back(static_cast<std::int64_t>(all_letters.find(c)));
  const auto count = static_cast<std::int64_t>(all_letters.size());
  return one_hot(rd::tensor(letters), count).unsqueeze(1).to(rd::f32);
}

struct Classifier : nn::Module {
  nn::RNN rnn;
  nn::Linear h2o;
  Classifier(std::int64_t hidden, std::int64_t categories)
      : rnn(static_cast<std::int64_t>(all_letters.size()), hidden), h2o(hidden, categories) {}

  /// Log-probabilities (1, categories) of a name.
  Tensor forward(const Tensor& name) override {
    const auto [output, state] = rnn(name, {});
    return log_softmax(h2o(state.h[0]), 1);
  }
  void visit(nn::Visitor& v) override {
    v.child("rnn", rnn);
    v.child("h2o", h2o);
  }
};

std::int64_t below(std::size_t n) {
  return rd::randint(0, static_cast<std::int64_t>(n), {1}).item<std::int64_t>();
}

int run(int argc, char** argv) {
  std::string folder, name = "Satoshi";
  int steps = 100'000, every = 5'000;
  std::int64_t hidden = 128;
  double lr = 0.005;
  rd::flags::CommandLine line("Which language is a name from?");
  line.add("--data", folder, "a folder of files of names, one for each language");
  line.add("--steps", steps, "names to learn from", rd::flags::count());
  line.add("--every", every, "print the mean loss of so many steps", rd::flags::count());
  line.add("--hidden", hidden, "size of the hidden state", rd::flags::count());
  line.add("--lr", lr, "learning rate", rd::flags::positive());
  line.add("--name", name, "classify this name at the end");
  if (const auto status = line.parse(argc, argv)) return *status;
  rd::require(!folder.empty(), "--data: name a folder");
  const std::string known = known_letters(name);
  rd::require(!known.empty(), "--name ", name, ": none of its letters is one of ", all_letters);

  rd::manual_seed(1);
  const Names names = read_names(folder);
  const auto categories = static_cast<std::int64_t>(names.categories.size());
  Classifier classifier(hidden, categories);
  rd::optim::SGD optimizer(classifier.parameters(), {.lr = lr});
  Tensor confusion = rd::zeros({categories, categories});  // actual, guessed; of the last steps
  double sum = 0;
  for (int step = 1; step <= steps; ++step) {
    const std::int64_t actual = below(names.lines.size());
    const auto& lines = names.lines[actual];
    const Tensor output = classifier(tensor_of(lines[below(lines.size())]));
    const Tensor loss = nll_loss(output, rd::tensor({actual}));
    optimizer.zero_grad();
    loss.backward();
    rd::optim::clip_grad_norm_(classifier.parameters(), 3);
    optimizer.step();
    sum += loss.item();
    confusion[actual][output.argmax().item<std::int64_t>()] += 1;
    if (step % every != 0) continue;
    std::printf("step %d: loss %.4f\n", step, sum / every);
    sum = 0;
    if (step + every <= steps) confusion.zero_();
  }
  for (std::int64_t c = 0; c < categories; ++c) {
    const double part = confusion[c][c].item() / std::max(confusion[c].sum().item(), 1.0);
    std::printf("%s: %.0f %% correct\n", names.categories[c].c_str(), 100 * part);
  }
  const auto best = classifier(tensor_of(known)).topk(std::min<std::int64_t>(3, categories));
  for (std::int64_t i = 0; i < best.values.size(1); ++i) {
    std::printf("%s: (%.2f) %s\n", name.c_str(), best.values[0][i].item(),
                names.categories[best.indices[0][i].item<std::int64_t>()].c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
