// Measures single ops, in f32 unless the name says otherwise, forward without a tape or forward and
// backward. These are the ops of models other than the ResNets of train_step. bench/compare.sh
// measures them in turns with PyTorch's (bench/peers/ops.py has the same list).

#include <omp.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>

#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/fold.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/interpolate.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scan.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/search.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/statistics.h"
#include "autograd/ops/subscript.h"
#include "autograd/ops/unary.h"
#include "extras/command_line.h"
#include "report.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string op, json;
  bool backward = false, turns = false;
  int threads = 0;
  double seconds = 1;
};

struct Op {
  std::vector<Dims> inputs;  // normal random numbers
  std::function<Tensor(const Tensors&)> f;
  DType dtype = f32;
  bool channels_last = false;
};

std::map<std::string, Op> ops() {
  const Dims hidden{32, 128, 768}, logits{512, 1000}, heads{8, 12, 128, 64}, image{32, 64, 56, 56};
  const Dims square{2048, 2048}, small{32, 64}, huge{64, 512, 1024}, feature{16, 64, 28, 28};
  const Tensor classes = randint(0, 1000, {512}), words = randint(0, 50'000, {64, 128});
  const Tensor row = randint(0, 2048, {1024}), place = randint(0, 2048, square);
  const Tensor ends = sort(randn({1000}), 0).values, later = triu(ones({128, 128}), 1) == 1;
  const auto unary = [&](Tensor (*f)(const Tensor&)) {
    return Op{{hidden}, [f](const Tensors& x) { return f(x[0]); }};
  };
  std::map<std::string, Op> all = {
      {"exp", unary(exp)},
      {"tanh", unary(tanh)},
      {"relu", unary(relu)},
      {"silu", unary(silu)},
      {"gelu", {{hidden}, [](const Tensors& x) { return gelu(x[0]); }}},
      {"pow3", {{hidden}, [](const Tensors& x) { return pow(x[0], 3); }}},
      {"add", {{hidden, {768}}, [](const Tensors& x) { return x[0] + x[1]; }}},
      {"mul", {{hidden, {32, 128, 1}}, [](const Tensors& x) { return x[0] * x[1]; }}},
      {"sum", {{hidden}, [](const Tensors& x) { return x[0].sum(); }}},
      {"mean_rows", {{hidden}, [](const Tensors& x) { return mean(x[0], {-1}); }}},
      {"sum_columns", {{{4096, 768}}, [](const Tensors& x) { return sum(x[0], {0}); }}},
      {"softmax", {{{8, 12, 128, 128}}, [](const Tensors& x) { return softmax(x[0], -1); }}},
      {"log_softmax", {{logits}, [](const Tensors& x) { return log_softmax(x[0], -1); }}},
      {"cross_entropy",
       {{logits}, [classes](const Tensors& x) { return cross_entropy(x[0], classes); }}},
      {"layer_norm",
       {{hidden, {768}, {768}},
        [](const Tensors& x) { return layer_norm(x[0], {768}, x[1], x[2]); }}},
      {"group_norm",
       {{image, {64}, {64}}, [](const Tensors& x) { return group_norm(x[0], 8, x[1], x[2]); }}},
      {"batch_norm",
       {{image, {64}, {64}},
        [](const Tensors& x) { return batch_norm(x[0], x[1], x[2], {}, {}, {.training = true}); }}},
      {"matmul", {{{512, 512}, {512, 512}}, [](const Tensors& x) { return matmul(x[0], x[1]); }}},
      {"bmm", {{{96, 128, 64}, {96, 64, 128}}, [](const Tensors& x) { return bmm(x[0], x[1]); }}},
      {"attention",
       {{heads, heads, heads},
        [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }}},
      {"rotary_embedding",
       {{{8, 8, 512, 64}}, [](const Tensors& x) { return rotary_embedding(x[0]); }}},
      {"embedding",
       {{{50'000, 512}}, [words](const Tensors& x) { return embedding(x[0], words); }}},
      {"cat",
       {{hidden, hidden},
        [](const Tensors& x) {
          return cat({x[0], x[1]}, -1);
        }}},
      {"transpose",
       {{{2048, 2048}}, [](const Tensors& x) { return contiguous(transpose(x[0], 0, 1)); }}},
      {"max_pool2d",
       {{image},
        [](const Tensors& x) { return max_pool2d(x[0], 3, {.stride = 2, .padding = 1}); }}},
      {"avg_pool2d", {{image}, [](const Tensors& x) { return avg_pool2d(x[0], 2); }}},
      {"global_avg_pool2d",
       {{image}, [](const Tensors& x) { return adaptive_avg_pool2d(x[0], 1); }}},
      {"upsample", {{image}, [](const Tensors& x) { return upsample_nearest2d(x[0], 2); }}},
      {"sqrt", {{hidden}, [](const Tensors& x) { return sqrt(x[0] * x[0]); }}},
      {"sigmoid", unary(sigmoid)},
      {"erf", unary(erf)},
      {"softplus", {{hidden}, [](const Tensors& x) { return softplus(x[0]); }}},
      {"div", {{hidden, hidden}, [](const Tensors& x) { return x[0] / x[1]; }}},
      {"maximum", {{hidden, hidden}, [](const Tensors& x) { return maximum(x[0], x[1]); }}},
      {"clamp", {{hidden}, [](const Tensors& x) { return clamp(x[0], -1, 1); }}},
      {"where", {{hidden, hidden}, [](const Tensors& x) { return where(x[0] > 0, x[0], x[1]); }}},
      {"equal", {{hidden, hidden}, [](const Tensors& x) { return eq(x[0], x[1]); }}},
      {"to_bf16", {{hidden}, [](const Tensors& x) { return x[0].to(bf16); }}},
      {"dropout", {{hidden}, [](const Tensors& x) { return dropout(x[0], 0.1); }}},
      {"randn", {{}, [hidden](const Tensors&) { return randn(hidden); }}},
      {"add_transposed",
       {{square, square}, [](const Tensors& x) { return x[0] + transpose(x[1], 0, 1); }}},
      {"add_small", {{small, small}, [](const Tensors& x) { return x[0] + x[1]; }}},
      {"exp_small", {{small}, [](const Tensors& x) { return exp(x[0]); }}},
      {"sum_small", {{small}, [](const Tensors& x) { return x[0].sum(); }}},
      {"softmax_small", {{small}, [](const Tensors& x) { return softmax(x[0], -1); }}},
      {"layer_norm_small", {{small}, [](const Tensors& x) { return layer_norm(x[0], {64}); }}},
      {"matmul_small", {{small, {64, 64}}, [](const Tensors& x) { return matmul(x[0], x[1]); }}},
      {"add_huge", {{huge, huge}, [](const Tensors& x) { return x[0] + x[1]; }}},
      {"exp_huge", {{huge}, [](const Tensors& x) { return exp(x[0]); }}},
      {"sum_huge", {{huge}, [](const Tensors& x) { return x[0].sum(); }}},
      {"softmax_huge", {{huge}, [](const Tensors& x) { return softmax(x[0], -1); }}},
      {"max_rows", {{hidden}, [](const Tensors& x) { return max(x[0], -1).values; }}},
      {"argmax", {{hidden}, [](const Tensors& x) { return argmax(x[0], -1); }}},
      {"var", {{hidden}, [](const Tensors& x) { return var(x[0], {-1}); }}},
      {"logsumexp", {{logits}, [](const Tensors& x) { return logsumexp(x[0], {-1}); }}},
      {"cumsum", {{square}, [](const Tensors& x) { return cumsum(x[0], -1); }}},
      {"sort", {{logits}, [](const Tensors& x) { return sort(x[0], -1).values; }}},
      {"topk", {{logits}, [](const Tensors& x) { return topk(x[0], 5).values; }}},
      {"index_select", {{square}, [row](const Tensors& x) { return index_select(x[0], 0, row); }}},
      {"gather", {{square}, [place](const Tensors& x) { return gather(x[0], 1, place); }}},
      {"scatter_add",
       {{square, square}, [place](const Tensors& x) { return scatter_add(x[0], 1, place, x[1]); }}},
      {"pad",
       {{image},
        [](const Tensors& x) {
          return pad(x[0], {1, 1, 1, 1});
        }}},
      {"conv2d",
       {{feature, {64, 64, 3, 3}},
        [](const Tensors& x) { return conv2d(x[0], x[1], {}, {.padding = 1}); }}},
      {"conv_1x1",
       {{feature, {256, 64, 1, 1}}, [](const Tensors& x) { return conv2d(x[0], x[1]); }}},
      {"conv_grouped",
       {{feature, {64, 16, 3, 3}},
        [](const Tensors& x) { return conv2d(x[0], x[1], {}, {.padding = 1, .groups = 4}); }}},
      {"conv_narrow_groups",
       {{feature, {64, 4, 3, 3}},
        [](const Tensors& x) { return conv2d(x[0], x[1], {}, {.padding = 1, .groups = 16}); }}},
      {"conv_depthwise",
       {{feature, {64, 1, 3, 3}},
        [](const Tensors& x) { return conv2d(x[0], x[1], {}, {.padding = 1, .groups = 64}); }}},
      {"conv_dilated",
       {{feature, {64, 64, 3, 3}},
        [](const Tensors& x) { return conv2d(x[0], x[1], {}, {.padding = 2, .dilation = 2}); }}},
      {"conv_transpose2d",
       {{feature, {64, 32, 2, 2}},
        [](const Tensors& x) { return conv_transpose2d(x[0], x[1], {}, {.stride = 2}); }}},
      {"bilinear",
       {{feature},
        [](const Tensors& x) {
          return interpolate(x[0], {.scale_factor = {2}, .mode = "bilinear"});
        }}},
      {"hardswish", {{hidden}, [](const Tensors& x) { return hardswish(x[0]); }}},
      {"elu", {{hidden}, [](const Tensors& x) { return elu(x[0]); }}},
      {"prelu", {{image, {64}}, [](const Tensors& x) { return prelu(x[0], x[1]); }}},
      {"smooth_l1",
       {{hidden, hidden}, [](const Tensors& x) { return smooth_l1_loss(x[0], x[1]); }}},
      {"bce_with_logits",
       {{hidden, hidden}, [](const Tensors& x) { return bce_with_logits(x[0], x[1]); }}},
      {"flip", {{hidden}, [](const Tensors& x) { return flip(x[0], {0}); }}},
      {"softmax_channels", {{image}, [](const Tensors& x) { return softmax(x[0], 1); }}},
      {"prod_rows", {{hidden}, [](const Tensors& x) { return prod(x[0], {-1}); }}},
      {"cdist", {{logits, logits}, [](const Tensors& x) { return cdist(x[0], x[1]); }}},
      {"both",
       {{hidden, hidden}, [](const Tensors& x) { return logical_and(x[0] > 0, x[1] > 0); }}},
      {"add_channels", {{image, {64, 1, 1}}, [](const Tensors& x) { return x[0] + x[1]; }}},
      {"less", {{hidden, hidden}, [](const Tensors& x) { return lt(x[0], x[1]); }}},
      {"remainder", {{hidden, hidden}, [](const Tensors& x) { return remainder(x[0], x[1]); }}},
      {"fmod", {{hidden}, [](const Tensors& x) { return fmod(x[0], 0.3); }}},
      {"atan2", {{hidden, hidden}, [](const Tensors& x) { return atan2(x[0], x[1]); }}},
      {"hypot", {{hidden, hidden}, [](const Tensors& x) { return hypot(x[0], x[1]); }}},
      {"logaddexp", {{hidden, hidden}, [](const Tensors& x) { return logaddexp(x[0], x[1]); }}},
      {"lerp", {{hidden, hidden}, [](const Tensors& x) { return lerp(x[0], x[1], 0.3); }}},
      {"addcmul",
       {{hidden, hidden, hidden}, [](const Tensors& x) { return addcmul(x[0], x[1], x[2]); }}},
      {"erfinv", {{hidden}, [](const Tensors& x) { return erfinv(x[0]); }}},
      {"log1p", {{hidden}, [](const Tensors& x) { return log1p(x[0]); }}},
      {"sin", unary(sin)},
      {"rsqrt", unary(rsqrt)},
      {"abs", {{hidden}, [](const Tensors& x) { return abs(x[0]); }}},
      {"nan_to_num", {{hidden}, [](const Tensors& x) { return nan_to_num(x[0]); }}},
      {"threshold", {{hidden}, [](const Tensors& x) { return threshold(x[0], 0.1, 20); }}},
      {"hardshrink", {{hidden}, [](const Tensors& x) { return hardshrink(x[0]); }}},
      {"softshrink", {{hidden}, [](const Tensors& x) { return softshrink(x[0]); }}},
      {"hardtanh", {{hidden}, [](const Tensors& x) { return hardtanh(x[0]); }}},
      {"softsign", {{hidden}, [](const Tensors& x) { return softsign(x[0]); }}},
      {"mish", {{hidden}, [](const Tensors& x) { return mish(x[0]); }}},
      {"logsigmoid", {{hidden}, [](const Tensors& x) { return logsigmoid(x[0]); }}},
      {"glu", {{hidden}, [](const Tensors& x) { return glu(x[0]); }}},
      {"masked_fill",
       {{hidden, hidden}, [](const Tensors& x) { return masked_fill(x[0], x[1] > 0, 0); }}},
      {"cumprod", {{square}, [](const Tensors& x) { return cumprod(x[0], -1); }}},
      {"cummax", {{square}, [](const Tensors& x) { return cummax(x[0], -1).values; }}},
      {"logcumsumexp", {{square}, [](const Tensors& x) { return logcumsumexp(x[0], -1); }}},
      {"cumsum_columns", {{square}, [](const Tensors& x) { return cumsum(x[0], 0); }}},
      {"std", {{hidden}, [](const Tensors& x) { return x[0].std(); }}},
      {"norm", {{hidden}, [](const Tensors& x) { return norm(x[0]); }}},
      {"normalize", {{hidden}, [](const Tensors& x) { return normalize(x[0], {.dim = -1}); }}},
      {"cosine_similarity",
       {{logits, logits}, [](const Tensors& x) { return cosine_similarity(x[0], x[1]); }}},
      {"median", {{logits}, [](const Tensors& x) { return median(x[0], -1).values; }}},
      {"searchsorted",
       {{hidden},
        [ends](const Tensors& x) { return searchsorted(ends, reshape(x[0], {x[0].numel()})); }}},
      {"bincount", {{}, [place](const Tensors&) { return bincount(reshape(place, {-1})); }}},
      {"unique", {{}, [words](const Tensors&) { return unique(words).values; }}},
      {"one_hot", {{}, [classes](const Tensors&) { return one_hot(classes, 1000); }}},
      {"nonzero", {{hidden}, [](const Tensors& x) { return nonzero(x[0] > 1); }}},
      {"masked_select", {{hidden}, [](const Tensors& x) { return masked_select(x[0], x[0] > 1); }}},
      {"roll", {{hidden}, [](const Tensors& x) { return roll(x[0], {5}, {-1}); }}},
      {"softmax_causal",
       {{{8, 12, 128, 128}},
        [later](const Tensors& x) { return softmax(masked_fill(x[0], later, -INFINITY), -1); }}},
      {"attention_causal",
       {{{2, 12, 512, 64}, {2, 12, 512, 64}, {2, 12, 512, 64}},
        [](const Tensors&
               x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true}); }}},
      {"tril", {{square}, [](const Tensors& x) { return tril(x[0]); }}},
      {"repeat_interleave",
       {{square}, [](const Tensors& x) { return repeat_interleave(x[0], 2, 1); }}},
      {"stack", {{hidden, hidden}, [](const Tensors& x) { return stack({x[0], x[1]}, -1); }}},
      {"pixel_shuffle", {{image}, [](const Tensors& x) { return pixel_shuffle(x[0], 2); }}},
      {"unfold", {{feature}, [](const Tensors& x) { return unfold(x[0], 3, {.padding = 1}); }}},
      {"instance_norm",
       {{image}, [](const Tensors& x) { return instance_norm(x[0], {}, {}, {}, {}); }}},
      {"rms_norm", {{hidden, {768}}, [](const Tensors& x) { return rms_norm(x[0], {768}, x[1]); }}},
      {"mse_loss", {{hidden, hidden}, [](const Tensors& x) { return mse_loss(x[0], x[1]); }}},
      {"l1_loss", {{hidden, hidden}, [](const Tensors& x) { return l1_loss(x[0], x[1]); }}},
      {"any", {{hidden}, [](const Tensors& x) { return any(x[0] > 10); }}},
      {"outer", {{{2048}, {2048}}, [](const Tensors& x) { return outer(x[0], x[1]); }}},
      {"einsum",
       {{heads, heads}, [](const Tensors& x) { return einsum("bhqd,bhkd->bhqk", {x[0], x[1]}); }}},
      {"to_i64", {{hidden}, [](const Tensors& x) { return x[0].to(i64); }}},
      {"to_f32_bf16", {{hidden}, [](const Tensors& x) { return x[0].to(f32); }, bf16}},
  };
  for (const char* name : {"batch_norm", "conv2d", "max_pool2d", "avg_pool2d", "global_avg_pool2d",
                           "upsample", "group_norm", "add_channels", "pad"}) {
    Op op = all.at(name);
    op.channels_last = true;
    all.emplace(concat(name, "_channels_last"), op);
  }
  for (const char* name : {"add", "exp", "sum", "softmax", "layer_norm", "cat", "transpose"}) {
    Op op = all.at(name);
    op.dtype = bf16;
    all.emplace(concat(name, "_bf16"), op);
  }
  return all;
}

/// Calls report(milliseconds of each call).
template <class Report>
void measure(const Settings& s, const std::function<void()>& step, Report report) {
  for (int i = 0; i < 3; ++i) step();
  const auto turn = [&] {
    std::vector<double> times;
    for (double total = 0; total < s.seconds * 1e3 || times.size() < 3;) {
      const auto start = Clock::now();
      step();
      times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      total += times.back();
    }
    report(times);
  };
  if (!s.turns) return turn();
  for (std::string line; std::getline(std::cin, line);) turn();
}

void run(const Settings& s, const std::string& name, const Op& op) {
  Tensors x;
  for (const Dims& sizes : op.inputs) {
    const bool last = op.channels_last && sizes.size() == 4;
    x.push_back(randn(sizes, {.dtype = op.dtype})
                    .contiguous(last ? MemoryFormat::channels_last : MemoryFormat::contiguous));
  }
  const auto report = [&](const std::vector<double>& times) {
    const double median = bench::median(times);
    if (s.json != "-")
      std::cout << name << (s.backward ? " with backward: " : ": ") << median << " ms\n";
    bench::write_json({{"framework", "rondo"},
                       {"op", name},
                       {"backward", s.backward},
                       {"threads", omp_get_max_threads()},
                       {"ms", median}},
                      s.json);
  };
  if (!s.backward) {
    NoGradGuard no_grad;
    return measure(
        s, [&] { (void)op.f(x); }, report);
  }
  for (Tensor& input : x) input.requires_grad_();
  const Tensor y = op.f(x);
  if (!y.requires_grad()) return;
  const Tensor dy = randn_like(y);
  measure(
      s,
      [&] {
        for (Tensor& input : x) input.zero_grad();
        op.f(x).backward(dy);
      },
      report);
}

void run(const Settings& s) {
  require(s.json.empty() || s.json == "-" || !s.op.empty(), "--json FILE needs --op");
  require(!s.turns || (s.json == "-" && !s.op.empty()), "--turns needs --op and --json -");
  if (s.threads > 0) omp_set_num_threads(s.threads);
  manual_seed(1);
  const auto all = ops();
  std::string names;
  for (const auto& [name, op] : all) {
    names += (names.empty() ? "" : ", ") + name;
    if (s.op.empty()) run(s, name, op);
  }
  if (s.op.empty()) return;
  require(all.contains(s.op), "--op ", s.op, ": there are ", names);
  run(s, s.op, all.at(s.op));
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  flags::CommandLine app("Times single ops.");
  app.add("--op", s.op, "the op (default: all)", flags::not_empty());
  app.add("--backward", s.backward, "with the gradients of all inputs");
  app.add("--threads", s.threads, "OpenMP threads; 0: all", flags::threads());
  app.add("--seconds", s.seconds, "how long to measure each", flags::positive());
  app.add("--turns", s.turns,
          "measure once for each line of standard input, for turns with another program");
  app.add("--json", s.json, "write the result to this file; - is standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  return bench::finish("ops", s.json, [&] { run(s); });
}
