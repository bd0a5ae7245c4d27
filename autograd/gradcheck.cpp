#include "autograd/gradcheck.h"

#include <cmath>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/shape.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

/// Element i, in row-major order, as a 0-dim view; x may have any strides and device.
Tensor element(const Tensor& x, std::int64_t i) {
  std::int64_t offset = x.storage_offset();
  for (std::int64_t d = x.dim() - 1; d >= 0; --d) {
    offset += i % x.size(d) * x.stride(d);
    i /= x.size(d);
  }
  return x.as_view({}, {}, offset);
}

bool checked(const Tensor& x) { return x.defined() && x.requires_grad(); }

/// d out[j] / d in[i] for all j, by central differences. All outputs are flattened into out.
std::vector<double> numerical_row(const std::function<Tensors(const Tensors&)>& f,
                                  const Tensors& inputs, const Tensor& x, std::int64_t i,
                                  double eps) {
  NoGradGuard guard;
  const Tensor at = element(x, i);
  const double middle = at.item<double>();
  auto outputs_at = [&](double value) {
    at.fill_(value);
    std::vector<double> flat;
    for (const Tensor& y : f(inputs)) {
      std::vector<double> part = y.to_vector<double>();
      flat.insert(flat.end(), part.begin(), part.end());
    }
    return flat;
  };
  std::vector<double> right = outputs_at(middle + eps), left = outputs_at(middle - eps);
  at.fill_(middle);
  for (std::size_t j = 0; j < right.size(); ++j) right[j] = (right[j] - left[j]) / (2 * eps);
  return right;
}

}  // namespace

GradcheckResult gradcheck(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs,
                          GradcheckOptions options) {
  Tensors wanted;
  for (const Tensor& x : inputs) {
    if (!checked(x)) continue;
    require<DTypeError>(x.dtype() == f64, "gradcheck: an input is ", x.dtype(),
                        "; differences need f64");
    wanted.push_back(x);
  }
  require(!wanted.empty(), "gradcheck: no input requires a gradient");
  Tensors outputs = f(inputs);

  // Row j of the Jacobian from the tape: one backward for each element of each output.
  std::vector<std::vector<std::vector<double>>> rows;  // [output element][input][input element]
  for (const Tensor& y : outputs) {
    for (std::int64_t j = 0; j < y.numel(); ++j) {
      rows.emplace_back();
      if (!y.requires_grad()) {
        for (const Tensor& x : wanted)
          rows.back().emplace_back(static_cast<std::size_t>(x.numel()), 0.0);
        continue;
      }
      Tensor one = zeros(y.shape(), {.dtype = y.dtype(), .device = y.device()});
      element(one, j).fill_(1);
      Tensors row =
          grad({y}, wanted, {.grad_outputs = {one}, .retain_graph = true, .allow_unused = true});
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        rows.back().push_back(
            row[k].defined()
                ? row[k].to_vector<double>()
                : std::vector<double>(static_cast<std::size_t>(wanted[k].numel()), 0.0));
      }
    }
  }
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    for (std::int64_t i = 0; i < wanted[k].numel(); ++i) {
      std::vector<double> numeric = numerical_row(f, inputs, wanted[k], i, options.eps);
      for (std::size_t j = 0; j < numeric.size(); ++j) {
        double tape = rows[j][k][static_cast<std::size_t>(i)];
        if (std::abs(tape - numeric[j]) <= options.atol + options.rtol * std::abs(numeric[j]))
          continue;
        return {false, concat("input ", k, " of shape ", wanted[k].shape(), ", element ", i,
                              ", output element ", j, ": the tape says ", tape,
                              ", differences say ", numeric[j])};
      }
    }
  }
  return {};
}

GradcheckResult gradgradcheck(const std::function<Tensors(const Tensors&)>& f,
                              const Tensors& inputs, GradcheckOptions options) {
  // The function to check: (inputs, v) -> grad of f at inputs, weighted by v.
  Tensors all = inputs;
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (checked(inputs[i])) wanted.push_back(i);
  }
  Tensors outputs = f(inputs);
  for (const Tensor& y : outputs) {
    Tensor v = randn(y.shape(), {.dtype = f64, .device = y.device()});
    v.requires_grad_(y.requires_grad());
    all.push_back(v);
  }
  std::size_t n = inputs.size();
  auto first_derivative = [&](const Tensors& points) {
    GradModeGuard recording(true);
    Tensors at(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(n)), ys, vs, xs;
    Tensors results = f(at);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].requires_grad()) continue;
      ys.push_back(results[i]);
      vs.push_back(points[n + i]);
    }
    for (std::size_t i : wanted) xs.push_back(at[i]);
    Tensors gradients =
        grad(ys, xs, {.grad_outputs = vs, .create_graph = true, .allow_unused = true});
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) gradients[i] = zeros_like(xs[i].detach());
    }
    return gradients;
  };
  return gradcheck(first_derivative, all, options);
}

}  // namespace rondo
