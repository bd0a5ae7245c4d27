// The names of functions, types and variables in PyTorch's tutorials. A program may define all of
// them next to the names that docs/guide/README.md imports.

#include <rondo/rondo.h>

#include <iostream>
#include <string>
#include <vector>

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

const int u8 = 8, i8 = -8, i32 = 32, i64 = 64, f16 = 16, bf16 = 16, f32 = 32, f64 = 64, boolean = 1;
int io = 0, dist = 0, hub = 0, cuda = 0, init = 0, detail = 0, test_loss = 0, epochs = 1;
std::string device = "cpu";

// Types: from the quickstart, classifiers, sequences, GANs, data sets and reinforcement learning.
struct Net : nn::Module {
  nn::Linear fc1{4, 8}, fc2{8, 2};
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
  void visit(nn::Visitor& v) override {
    v.child("fc1", fc1);
    v.child("fc2", fc2);
  }
};
struct Dataset {
  Tensor x, y;
};
struct DataLoader {
  std::vector<Dataset> batches;
};
struct CustomImageDataset : Dataset {};
struct NeuralNetwork : Net {};
struct Linear : nn::Linear {
  using nn::Linear::Linear;
};
struct Module {};
struct Generator : Net {};
struct Discriminator : Net {};
struct VAE : Net {};
struct EncoderRNN : Net {};
struct PositionalEncoding : Net {};
struct ReplayMemory {};
struct Transition {};
struct AverageMeter {
  double sum = 0, count = 0;
};
struct Node {};
struct Edge {};
struct Error {};
struct Device {};
struct Checkpoint {};
struct Trainer {};
struct Callback {};
struct Compose {};
struct Normalize {};
struct RandomCrop {};
struct Rescale {};
struct Summary {};
enum class Activation { relu };
enum class Split { train, test };

// Functions.
Dataset data(int n) {
  rd::manual_seed(1);
  const Tensor x = rd::randn({n, 4});
  return {x, gt(x.sum({1}), 0).to(rd::i64)};
}
Dataset get_data(int n) { return data(n); }
Dataset get_batch(const Dataset& source, int i) {
  return {source.x.narrow(0, i, 8), source.y.narrow(0, i, 8)};
}
DataLoader loader(const Dataset& source) { return {{get_batch(source, 0), get_batch(source, 8)}}; }
Tensor log_softmax(const Tensor& x) { return x - log(exp(x).sum({-1}, true)); }
Tensor nll(const Tensor& input, const Tensor& target) { return cross_entropy(input, target); }
Tensor loss_fn(const Tensor& output, const Tensor& target) {
  return nll(log_softmax(output), target);
}
double accuracy(const Tensor& out, const Tensor& yb) {
  return eq(out.argmax(-1), yb).to(rd::f32).mean().item();
}
double loss_batch(Net& model, const Dataset& batch, optim::Optimizer* opt) {
  const Tensor loss = loss_fn(model(batch.x), batch.y);
  if (opt != nullptr) {
    opt->zero_grad();
    loss.backward();
    opt->step();
  }
  return loss.item();
}
void train(DataLoader& dataloader, Net& model, optim::Optimizer& optimizer) {
  model.train();
  for (const Dataset& batch : dataloader.batches) loss_batch(model, batch, &optimizer);
}
double evaluate(Net& model, const Dataset& set) { return accuracy(model(set.x), set.y); }
double validate(Net& model, const Dataset& set) { return evaluate(model, set); }
double test(DataLoader& dataloader, Net& model) {
  const rd::NoGradGuard no_grad;
  model.eval();
  double sum = 0;
  for (const Dataset& batch : dataloader.batches) sum += validate(model, batch);
  return sum / static_cast<double>(dataloader.batches.size());
}
void train_loop(DataLoader& dataloader, Net& model, optim::Optimizer& opt) {
  train(dataloader, model, opt);
}
double test_loop(DataLoader& dataloader, Net& model) { return test(dataloader, model); }
void fit(int n, Net& model, optim::Optimizer& opt, DataLoader& dataloader) {
  for (int epoch = 0; epoch < n; ++epoch) train_loop(dataloader, model, opt);
}
void save_checkpoint(Net& model, const std::string& path) {
  rd::io::save_safetensors(path, model.state_dict());
}
void load(Net& model, const std::string& path) {
  model.load_state_dict(rd::io::load_safetensors(path).tensors);
}
void run(int rank, int world_size) { std::cout << rank << " of " << world_size << "\n"; }
void step() {}
void backward() {}
void optimize_model() {}

int main() {
  Net model;
  const Dataset all = get_data(64);
  DataLoader dataloader = loader(all);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  fit(50 * epochs, model, optimizer, dataloader);
  save_checkpoint(model, "names.safetensors");
  load(model, "names.safetensors");
  run(dist, 1);
  step();
  backward();
  optimize_model();
  const int sum = u8 + i8 + i32 + i64 + f16 + bf16 + f32 + f64 + boolean + io + hub + cuda + init +
                  detail + test_loss;
  return test_loop(dataloader, model) > 0.9 && sum > 0 && device == "cpu" ? 0 : 1;
}
