// Rows of the op table: activations and losses that are composed of other ops.

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/embedding_bag.h"
#include "autograd/ops/fold.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/pool.h"
#include "support/op_table.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

class Rows {
 public:
  void add(std::string name, std::vector<OpInput> inputs, OpFunction f, std::int64_t length = 1,
           double scale = 1) {
    all.push_back({.name = std::move(name),
                   .inputs = std::move(inputs),
                   .f = std::move(f),
                   .length = length,
                   .scale = scale});
  }
  std::vector<Op> all;
};

void composed_activations(Rows& rows) {
  const OpInput spaced{{2, 3, 2, 2}, -2, 2, true}, wide{{2, 3, 2, 2}, -4, 4, true},
      even{{2, 4, 3}, -2, 2};
  rows.add("elu", {spaced}, [](X x) { return elu(x[0], 0.5); });
  rows.add(
      "selu", {spaced}, [](X x) { return selu(x[0]); }, 2);
  rows.add(
      "celu", {spaced}, [](X x) { return celu(x[0], 0.5); }, 2);
  rows.add("glu", {even}, [](X x) { return glu(x[0], 1); });
  rows.add("mish", {spaced}, [](X x) { return mish(x[0]); });
  rows.add(
      "prelu", {spaced, {{3}}}, [](X x) { return prelu(x[0], x[1]); }, 8);
  rows.add("rrelu", {spaced}, [](X x) {
    Generator generator(3);
    return rrelu(x[0], 0.25, 0.5, true, generator);
  });
  rows.add("hardtanh", {spaced}, [](X x) { return hardtanh(x[0]); });
  rows.add("relu6", {{{2, 3, 2, 2}, -2, 10, true}}, [](X x) { return relu6(x[0]); });
  rows.add("hardsigmoid", {wide}, [](X x) { return hardsigmoid(x[0]); });
  rows.add("hardswish", {wide}, [](X x) { return hardswish(x[0]); });
  rows.add("hardshrink", {spaced}, [](X x) { return hardshrink(x[0]); });
  rows.add("softshrink", {spaced}, [](X x) { return softshrink(x[0]); });
  rows.add("tanhshrink", {spaced}, [](X x) { return tanhshrink(x[0]); });
  rows.add("threshold", {spaced}, [](X x) { return threshold(x[0], 0, -0.5); });
  rows.add("softplus.scaled", {wide}, [](X x) { return softplus(x[0], 2, 4); });
  rows.add("softsign", {spaced}, [](X x) { return softsign(x[0]); });
  rows.add("logsigmoid", {wide}, [](X x) { return logsigmoid(x[0]); });
  rows.add(
      "softmin", {spaced}, [](X x) { return softmin(x[0], 1); }, 3);
}

void composed_losses(Rows& rows) {
  const OpInput logits{{4, 3}, -2, 2}, p{{4, 3}, 0.125, 0.875}, between{{4, 3}, -1.95, 2.05, true},
      spaced{{4, 3}, -2, 2, true};
  const auto signs = [](const Tensor& x, const Dims& sizes) {
    const Tensor odd = remainder(arange(numel_of(sizes)).reshape(sizes), scalar(2, {.dtype = i64}));
    return on_device_of(x, where(odd == 1, -1.0, 1.0).to(x.dtype()));
  };
  const Tensor classes = tensor<std::int64_t>({0, 2, 1, 2}),
               lists = tensor<std::int64_t>({0, 2, -1, 1, -1, 0, -1, 0, 0, 0, 1, 2}, {4, 3});
  const auto row = [](const Tensor& x) {
    return on_device_of(x, tensor<double>({0.5, 1, 2}).to(x.dtype()));
  };
  rows.add(
      "cross_entropy.probabilities", {logits, p},
      [=](X x) {
        return cross_entropy(x[0], x[1], {.weight = row(x[0]), .label_smoothing = 0.25});
      },
      12, 4);
  rows.add(
      "bce_with_logits.pos_weight", {logits, p},
      [=](X x) {
        return bce_with_logits(x[0], x[1], {.weight = row(x[0]), .pos_weight = row(x[0])});
      },
      12, 4);
  rows.add(
      "binary_cross_entropy", {p, p}, [](X x) { return binary_cross_entropy(x[0], x[1]); }, 12, 8);
  rows.add(
      "huber_loss", {spaced, between}, [](X x) { return huber_loss(x[0], x[1], {.delta = 0.7}); },
      12, 4);
  rows.add(
      "poisson_nll_loss", {logits, {{4, 3}, 1.5, 4}},
      [](X x) { return poisson_nll_loss(x[0], x[1], {.full = true}); }, 12, 8);
  rows.add(
      "gaussian_nll_loss", {logits, logits, {{4}, 0.5, 2}},
      [](X x) { return gaussian_nll_loss(x[0], x[1], x[2], {.full = true}); }, 12, 32);
  rows.add(
      "margin_ranking_loss", {spaced, between},
      [=](X x) {
        return margin_ranking_loss(x[0], x[1], signs(x[0], {4, 3}), {.margin = 0.3});
      },
      12, 4);
  rows.add(
      "cosine_embedding_loss", {logits, logits},
      [=](X x) { return cosine_embedding_loss(x[0], x[1], signs(x[0], {4}), {.margin = 0.1}); }, 12,
      4);
  rows.add(
      "hinge_embedding_loss", {spaced},
      [=](X x) {
        return hinge_embedding_loss(x[0], signs(x[0], {4, 3}), {.margin = 0.1});
      },
      12, 4);
  rows.add(
      "multi_margin_loss", {between},
      [=](X x) {
        return multi_margin_loss(x[0], on_device_of(x[0], classes),
                                 {.p = 2, .margin = 0.9, .weight = row(x[0])});
      },
      12, 16);
  rows.add(
      "multilabel_margin_loss", {between},
      [=](X x) { return multilabel_margin_loss(x[0], on_device_of(x[0], lists)); }, 12, 8);
  rows.add(
      "soft_margin_loss", {logits},
      [=](X x) {
        return soft_margin_loss(x[0], signs(x[0], {4, 3}));
      },
      12, 4);
  rows.add(
      "multilabel_soft_margin_loss", {logits, p},
      [=](X x) { return multilabel_soft_margin_loss(x[0], x[1], {.weight = row(x[0])}); }, 12, 4);
  rows.add(
      "pairwise_distance", {logits, {{3}, -2, 2}},
      [](X x) { return pairwise_distance(x[0], x[1], {.p = 3}); }, 12, 4);
  rows.add(
      "triplet_margin_loss", {logits, logits, logits},
      [](X x) { return triplet_margin_loss(x[0], x[1], x[2], {.margin = 4, .swap = true}); }, 12,
      8);
  rows.add(
      "triplet_margin_with_distance_loss", {logits, logits, logits},
      [](X x) { return triplet_margin_with_distance_loss(x[0], x[1], x[2], {.margin = 4}); }, 12,
      8);
}

void ctc_losses(Rows& rows) {
  rows.add(
      "ctc_loss", {{{5, 2, 3}, -3, -0.5}},
      [](X x) {
        const Tensor targets = tensor<std::int64_t>({1, 1, 2}),
                     steps = tensor<std::int64_t>({5, 3}), labels = tensor<std::int64_t>({2, 1});
        return ctc_loss(x[0], targets, steps, labels);
      },
      24, 16);
}

void dropouts(Rows& rows) {
  const auto row = [&](const char* name, const Dims& sizes, auto f) {
    rows.add(
        name, {{sizes}},
        [=](X x) {
          Generator generator(3);
          return f(x[0], 0.5, true, generator);
        },
        1, 4);
  };
  row("dropout1d", {3, 4, 2}, dropout1d);
  row("dropout2d", {2, 3, 2, 2}, dropout2d);
  row("dropout3d", {2, 3, 1, 2, 2}, dropout3d);
  row("alpha_dropout", {2, 3, 2, 2}, alpha_dropout);
  row("feature_alpha_dropout", {2, 3, 2, 2}, feature_alpha_dropout);
}

void exchanged_dims(Rows& rows) {
  rows.add("pixel_shuffle", {{{2, 4, 2, 3}}}, [](X x) { return pixel_shuffle(x[0], 2); });
  rows.add("pixel_unshuffle", {{{2, 3, 2, 4}}}, [](X x) { return pixel_unshuffle(x[0], 2); });
  rows.add("channel_shuffle", {{{2, 6, 2, 1}}}, [](X x) { return channel_shuffle(x[0], 3); });
  rows.add(
      "bilinear", {{{3, 2}}, {{3, 4}}, {{5, 2, 4}}, {{5}}},
      [](X x) { return bilinear(x[0], x[1], x[2], x[3]); }, 24);
}

void composed_norms(Rows& rows) {
  const OpInput image{{2, 3, 2, 3}, -2, 2};
  rows.add(
      "rms_norm", {image, {{2, 3}}},
      [](X x) {
        return rms_norm(x[0], {2, 3}, x[1], 1e-3);
      },
      12, 4);
  rows.add(
      "instance_norm", {image, {{3}}, {{3}}},
      [](X x) { return instance_norm(x[0], x[1], x[2], {}, {}); }, 12, 8);
  rows.add(
      "local_response_norm", {image},
      [](X x) { return local_response_norm(x[0], 2, {.alpha = 0.5}); }, 4, 4);
}

void composed_pools(Rows& rows) {
  const OpInput image{{2, 3, 5, 4}, -2, 2, true}, line{{2, 3, 7}, -2, 2, true},
      volume{{1, 2, 3, 4, 4}, -2, 2, true};
  rows.add(
      "max_pool2d.dilation", {image},
      [](X x) { return max_pool2d(x[0], 2, {.stride = 1, .padding = 1, .dilation = 2}); }, 4);
  rows.add(
      "max_pool2d_with_indices", {image},
      [](X x) { return max_pool2d_with_indices(x[0], 2, {.stride = 1}).values; }, 4);
  rows.add(
      "adaptive_max_pool2d", {image},
      [](X x) {
        return adaptive_max_pool2d(x[0], {3, 2});
      },
      4);
  rows.add(
      "adaptive_max_pool2d_with_indices", {image},
      [](X x) {
        return adaptive_max_pool2d_with_indices(x[0], {2, 3}).values;
      },
      4);
  rows.add("max_unpool2d", {{{1, 2, 2, 2}}}, [](X x) {
    const Tensor at = tensor<std::int64_t>({0, 5, 6, 15, 3, 2, 8, 11}, {1, 2, 2, 2});
    return max_unpool2d(x[0], on_device_of(x[0], at), 2);
  });
  rows.add("max_unpool1d", {{{2, 1, 3}}}, [](X x) {
    const Tensor at = tensor<std::int64_t>({0, 3, 4, 1, 2, 5}, {2, 1, 3});
    return max_unpool1d(x[0], on_device_of(x[0], at), 2);
  });
  rows.add("max_unpool3d", {{{1, 2, 1, 2, 1}}}, [](X x) {
    const Tensor at = tensor<std::int64_t>({3, 14, 0, 9}, {1, 2, 1, 2, 1});
    return max_unpool3d(x[0], on_device_of(x[0], at), 2);
  });
  rows.add(
      "lp_pool3d", {{{1, 2, 3, 2, 3}, 0.5, 2}}, [](X x) { return lp_pool3d(x[0], 2, 2); }, 8, 64);
  rows.add(
      "avg_pool2d.divisor", {image},
      [](X x) { return avg_pool2d(x[0], 3, {.stride = 2, .padding = 1, .divisor_override = 4}); },
      9);
  rows.add(
      "lp_pool2d", {{{2, 3, 5, 4}, 0.5, 2}}, [](X x) { return lp_pool2d(x[0], 3, 2); }, 4, 32);
  rows.add(
      "lp_pool1d", {{{2, 3, 7}, 0.5, 2}}, [](X x) { return lp_pool1d(x[0], 2, 3); }, 4, 16);
  rows.add(
      "max_pool1d", {line}, [](X x) { return max_pool1d(x[0], 3, {.stride = 2}); }, 2);
  rows.add(
      "avg_pool1d", {line}, [](X x) { return avg_pool1d(x[0], 3, {.padding = 1}); }, 3);
  rows.add(
      "adaptive_avg_pool1d", {line}, [](X x) { return adaptive_avg_pool1d(x[0], 3); }, 3);
  rows.add(
      "adaptive_max_pool1d", {line}, [](X x) { return adaptive_max_pool1d(x[0], 3); }, 3);
  rows.add(
      "max_pool1d_with_indices", {line},
      [](X x) { return max_pool1d_with_indices(x[0], 3, {.stride = 2}).values; }, 3);
  rows.add(
      "adaptive_max_pool1d_with_indices", {line},
      [](X x) { return adaptive_max_pool1d_with_indices(x[0], 3).values; }, 3);
  rows.add(
      "max_pool3d_with_indices", {volume},
      [](X x) { return max_pool3d_with_indices(x[0], 2).values; }, 8);
  rows.add(
      "adaptive_max_pool3d_with_indices", {volume},
      [](X x) {
        return adaptive_max_pool3d_with_indices(x[0], {2, 3, 1}).values;
      },
      8);
  rows.add(
      "max_pool3d", {volume},
      [](X x) {
        return max_pool3d(x[0], 2, {.stride = {1, 2, 2}});
      },
      4);
  rows.add(
      "avg_pool3d", {volume}, [](X x) { return avg_pool3d(x[0], 2, {.padding = 1}); }, 8);
  rows.add(
      "adaptive_avg_pool3d", {volume},
      [](X x) {
        return adaptive_avg_pool3d(x[0], {2, 3, 1});
      },
      8);
  rows.add(
      "adaptive_max_pool3d", {volume},
      [](X x) {
        return adaptive_max_pool3d(x[0], {2, 3, 1});
      },
      8);
  rows.add(
      "unfold", {{{2, 2, 4, 3}}}, [](X x) { return unfold(x[0], 2, {.padding = 1}); }, 4);
  rows.add(
      "fold", {{{2, 8, 6}}},
      [](X x) {
        return fold(x[0], {4, 3}, 2);
      },
      4);
}

void bags(Rows& rows) {
  const auto row = [&](std::string name, BagMode mode) {
    rows.add(
        "embedding_bag." + name, {{{5, 3}, -2, 2, true}},
        [=](X x) {
          const Tensor index = tensor<std::int64_t>({4, 0, 0, 2, 1, 3, 2}),
                       offsets = tensor<std::int64_t>({0, 3, 3});
          return embedding_bag(x[0], on_device_of(x[0], index), on_device_of(x[0], offsets),
                               {.mode = mode, .padding_idx = 2});
        },
        4, 4);
  };
  row("sum", BagMode::sum);
  row("mean", BagMode::mean);
  row("max", BagMode::max);
  rows.add(
      "embedding_bag.weights", {{{5, 3}}, {{2, 2}}},
      [](X x) {
        const Tensor index = on_device_of(x[0], tensor<std::int64_t>({4, 0, 0, 2}, {2, 2}));
        return embedding_bag(x[0], index, {}, {.mode = BagMode::sum, .per_sample_weights = x[1]});
      },
      6);
}

void padding(Rows& rows) {
  const OpInput image{{2, 3, 4, 3}};
  const auto row = [&](std::string name, PadMode mode) {
    rows.add(
        "pad." + name, {image},
        [=](X x) {
          return pad(x[0], {1, -1, 2, 1}, mode);
        },
        4);
  };
  row("constant", PadMode::constant);
  row("reflect", PadMode::reflect);
  row("replicate", PadMode::replicate);
  row("circular", PadMode::circular);
}

}  // namespace

std::vector<Op> composed_rows() {
  Rows rows;
  composed_activations(rows);
  composed_losses(rows);
  ctc_losses(rows);
  dropouts(rows);
  exchanged_dims(rows);
  composed_norms(rows);
  composed_pools(rows);
  bags(rows);
  padding(rows);
  return std::move(rows.all);
}

}  // namespace rondo::test
