#pragma once
// The flags and the program that cifar_resnet and fashion_mlp share. The two programs differ only
// in their defaults.

#include <cstdint>
#include <string>

namespace examples {

struct Flags {
  std::string model = {}, dataset = {};
  std::string shortcut = "a";
  bool grad_checkpointing = false;
  std::int64_t epochs = 12, batch = 128;
  double lr = 0.3, weight_decay = 5e-4;
  std::string optimizer = "sgd";
  std::string sync = "ddp";
  int average_every = 8, average_node_every = 0;
  std::int64_t average_warmup = 0;
  double outer_lr = 1, outer_momentum = 0;
  bool average_async = false;
  std::string compress = {};
  bool zero = false;
  int accumulate = 1;
  bool overlap = true;
  bool sync_bn = false;
  int reproducible = 0;  // shards; 0: off
  std::string all_reduce = "auto";
  double timeout = 300;
  std::string device = "cpu";
  std::string amp = {};  // "bf16", "f16"; empty: f32
  bool graph = false, resident = false;
  std::string mean = {}, std = {};  // "a,b,c"; empty: the data set's
  std::int64_t limit = 0;
  bool resume = false;
  std::string checkpoint_dir = {};
  std::int64_t checkpoint_every = 0, keep_checkpoints = 2;
  bool async_checkpoints = false;
  std::string weights = {};
  bool eval = false, summary = false;
  std::uint64_t seed = 1;
  int threads = 0;
  std::string data = {};
  std::string json = {}, csv = {}, tensorboard = {}, trace = {}, profile = {}, report = {};
  std::int64_t profile_steps = 10;
  std::string predict = {}, export_onnx = {};
  bool augment = true;
  std::string progress = "auto";
};

/// Parses the command line (flags that are not given keep `defaults`), then trains, evaluates or
/// predicts. Returns the program's exit status: 0; 1 after an error (one sentence on standard
/// error); 143 after SIGTERM; 130 after SIGINT.
int run_classifier(int argc, char** argv, const std::string& description, Flags defaults);

}  // namespace examples
