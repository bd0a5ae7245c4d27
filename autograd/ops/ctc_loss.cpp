// ctc_loss: the forward recursion over all alignments, in ops, so that the tape derives the
// backward recursion from it.
//
// A target of S labels has L = 2 S + 1 states: its labels, with a blank before, between and after
// them. alpha[s] is the logarithm of the probability of all ways to be in state s after a step.

#include <algorithm>
#include <limits>
#include <vector>

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/loss_parts.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Instead of -inf, whose differences would be NaN in the gradient of logsumexp.
constexpr double impossible = -1e30;

using Integers = std::vector<std::int64_t>;

Integers checked_lengths(const char* what, const Tensor& lengths, std::int64_t n,
                         std::int64_t most) {
  require<DTypeError>(lengths.dtype() == i64 || lengths.dtype() == i32, "ctc_loss: ", what, " are ",
                      lengths.dtype(), ", not i64 or i32");
  require<ShapeError>(lengths.shape() == Dims{n}, "ctc_loss: ", what, " have the shape ",
                      lengths.shape(), ", not [", n, "]");
  Integers values = lengths.to_vector<std::int64_t>();
  for (const std::int64_t value : values)
    require<ShapeError>(value >= 0 && value <= most, "ctc_loss: ", what, " contain ", value,
                        ", which is not in 0 … ", most);
  return values;
}

/// The states of all targets, (N, L), filled up with blanks.
struct States {
  std::int64_t count = 0;  // L
  Integers labels;
  std::vector<std::uint8_t> may_skip;  // from state s - 2: another label, so no blank is needed

  States(const Tensor& targets, const Integers& lengths, std::int64_t classes, std::int64_t blank) {
    require<DTypeError>(targets.dtype() == i64 || targets.dtype() == i32,
                        "ctc_loss: the targets are ", targets.dtype(), ", not i64 or i32");
    const auto n = static_cast<std::int64_t>(lengths.size());
    std::int64_t longest = 0, total = 0;
    for (const std::int64_t length : lengths) {
      longest = std::max(longest, length);
      total += length;
    }
    const bool is_padded = targets.dim() == 2;
    require<ShapeError>(is_padded ? targets.size(0) == n && targets.size(1) >= longest
                                  : targets.dim() == 1 && targets.numel() == total,
                        "ctc_loss: targets ", targets.shape(), " are neither (", n, ", ", longest,
                        " or more) nor (", total, "), as the target lengths say");
    const Integers values = targets.to_vector<std::int64_t>();
    count = 2 * longest + 1;
    labels.assign(static_cast<std::size_t>(n * count), blank);
    may_skip.assign(labels.size(), 0);
    std::size_t first = 0;  // of this sequence's labels
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      for (std::int64_t j = 0; j < lengths[i]; ++j) {
        const std::int64_t label = values[first + static_cast<std::size_t>(j)];
        require<ShapeError>(label >= 0 && label < classes, "ctc_loss: target ", label,
                            " is not one of the ", classes, " classes");
        require<Error>(label != blank, "ctc_loss: target ", label, " is the blank, not a label");
        const std::size_t state =
            i * static_cast<std::size_t>(count) + static_cast<std::size_t>(2 * j + 1);
        labels[state] = label;
        may_skip[state] = j > 0 && label != labels[state - 2];
      }
      first += static_cast<std::size_t>(is_padded ? targets.size(1) : lengths[i]);
    }
  }
};

/// alpha[s - by], impossible for s < by.
Tensor shifted(const Tensor& alpha, std::int64_t by) {
  const std::int64_t rest = alpha.size(1) - by;
  if (rest <= 0) return full_like(alpha.detach(), impossible);
  return cat({full({alpha.size(0), by}, impossible, alpha.options()), narrow(alpha, 1, 0, rest)},
             1);
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCOptions& options) {
  const OpRange op("ctc_loss");
  if (const Casts cast{AutocastOp::other_losses, log_probs})
    return ctc_loss(cast(log_probs), targets, input_lengths, target_lengths, options);
  require_float(log_probs, "ctc_loss");
  if (log_probs.dim() == 2) {
    const Tensor loss = ctc_loss(unsqueeze(log_probs, 1), targets, reshape(input_lengths, {-1}),
                                 reshape(target_lengths, {-1}), options);
    return options.reduction == Reduction::none ? squeeze(loss, 0) : loss;
  }
  require<ShapeError>(log_probs.dim() == 3 && log_probs.size(1) > 0, "ctc_loss: input ",
                      log_probs.shape(), " is not (T, N, C) or (T, C)");
  const std::int64_t steps = log_probs.size(0), n = log_probs.size(1), classes = log_probs.size(2);
  require<ShapeError>(options.blank >= 0 && options.blank < classes, "ctc_loss: blank ",
                      options.blank, " is not one of the ", classes, " classes");
  const Integers lengths = checked_lengths("input_lengths", input_lengths, n, steps);
  const Integers label_counts = checked_lengths("target_lengths", target_lengths, n,
                                                std::numeric_limits<std::int64_t>::max());
  const States states(targets, label_counts, classes, options.blank);
  const std::int64_t count = states.count;
  const Device device = log_probs.device();
  const auto on_device = [&](const Tensor& x) { return to(x, device); };

  // The log-probability of each state's label at each step.
  const Tensor labels = on_device(tensor(states.labels, {1, n, count}));
  const Tensor chosen = gather(widened(log_probs), 2, expand(labels, {steps, n, count}));
  const Tensors emitted =
      unbind(clamp(chosen, impossible, std::numeric_limits<double>::infinity()), 0);
  const Tensor cannot_skip = on_device(tensor(states.may_skip, {n, count})) == 0;
  const Tensor ends = on_device(tensor(lengths, {n, 1}));

  Tensor alpha = full({n, count}, impossible, chosen.options());
  alpha.select(1, 0).fill_(0.0);  // before the first step
  const std::int64_t shortest = *std::ranges::min_element(lengths),
                     longest = *std::ranges::max_element(lengths);
  for (std::int64_t t = 0; t < longest; ++t) {
    const Tensor skips = masked_fill(shifted(alpha, 2), cannot_skip, impossible);
    const Tensor next = logsumexp(stack({alpha, shifted(alpha, 1), skips}), {0}) +
                        emitted[static_cast<std::size_t>(t)];
    alpha = t < shortest ? next : where(ends > t, next, alpha);
  }

  // A sequence ends in its last label, or in the blank after it.
  Integers last, before;
  for (const std::int64_t labels_of_one : label_counts) {
    last.push_back(2 * labels_of_one);
    before.push_back(std::max<std::int64_t>(2 * labels_of_one - 1, 0));
  }
  const Tensor label_count = on_device(tensor(label_counts, {n, 1}));
  const Tensor in_blank = gather(alpha, 1, on_device(tensor(last, {n, 1})));
  const Tensor in_label = masked_fill(gather(alpha, 1, on_device(tensor(before, {n, 1}))),
                                      label_count == 0, impossible);
  Tensor losses = neg(logsumexp(cat({in_blank, in_label}, 1), {1}));
  losses = masked_fill(losses, losses > -impossible / 10,
                       options.zero_infinity ? 0 : std::numeric_limits<double>::infinity());
  if (options.reduction == Reduction::mean)
    losses = losses / squeeze(to(clamp(label_count, 1, std::numeric_limits<std::int64_t>::max()),
                                 losses.dtype()),
                              1);
  return to(reduced(losses, options.reduction), log_probs.dtype());
}

}  // namespace rondo
