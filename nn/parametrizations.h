#pragma once
// Weights that are computed from other tensors in each forward: weight_norm and spectral_norm, as
// in torch.nn.utils.parametrizations and with its names in the state dict.
//
//   auto layer = nn::weight_norm(nn::Linear(20, 40));  // a layer like any other
//   layer.named_parameters();  // bias, parametrizations.weight.original0 and .original1
//
// Make the optimizer after this, because the layer has other parameters than before.

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "nn/module.h"

namespace rondo::nn {

struct WeightNormOptions {
  std::optional<std::int64_t> dim = 0;  // nullopt, and -1 as in PyTorch: one norm for all elements
};

/// weight = g v / ‖v‖ (Salimans and Kingma 2016): original0 is g, original1 is v. There is one norm
/// for each index of `dim`. Throws ShapeError if the weight has no such dimension.
struct WeightNorm : Module {
  std::optional<std::int64_t> dim;
  Tensor original0, original1;

  WeightNorm(const Tensor& weight, const WeightNormOptions& options);
  Tensor weight() const;
  Tensor forward(const Tensor&) override;
  void visit(Visitor& v) override {
    v.parameter("original0", original0);
    v.parameter("original1", original1);
  }
};

struct SpectralNormOptions {
  std::int64_t n_power_iterations = 1;  // in each forward in training
  double eps = 1e-12;
  std::optional<std::int64_t> dim = {};  // the output channels; nullopt: 1 for transposed
                                         // convolutions, else 0
};

/// weight = W / σ(W), where σ is the largest singular value of W as a matrix with one row for each
/// index of `dim` (Miyato et al. 2018). The power method estimates it: the buffers _u and _v are
/// singular vectors. A vector is divided by its norm. Throws ShapeError if the weight has no such
/// dimension, and Error for n_power_iterations below 1.
struct SpectralNorm : Module {
  struct Vectors : Module {
    Tensor u, v;
    Tensor forward(const Tensor&) override;
    void visit(Visitor& visitor) override {
      visitor.buffer("_u", u);
      visitor.buffer("_v", v);
    }
  };
  SpectralNormOptions options;
  Tensor original;
  Vectors vectors;

  SpectralNorm(const Tensor& weight, const SpectralNormOptions& options);
  Tensor weight();
  Tensor forward(const Tensor&) override;
  void visit(Visitor& v) override {
    v.parameter("original", original);
    v.child("0", vectors);
  }

 private:
  Tensor as_matrix() const;
  void iterate(const Tensor& matrix, std::int64_t times);
};

/// A layer M whose member `weight` P computes: WeightNorm or SpectralNorm. Between two forwards,
/// `weight` holds the value of the last one.
template <class M, class P>
class Parametrized final : public M {
 public:
  template <class Options>
  Parametrized(M layer, const Options& options)
      : M(std::move(layer)), parametrizations_(P(M::weight.detach(), options)) {
    compute();
    M::weight = M::weight.detach();
  }

  /// Only this way of calling the layer computes its weight; others of M are hidden.
  using Module::operator();
  Tensor forward(const Tensor& x) override {
    compute();
    // Afterwards detached, also after an exception, so that the tape ends with its other users.
    const struct Detach {
      Tensor& weight;
      ~Detach() { weight = weight.detach(); }
    } detach{M::weight};
    return M::forward(x);
  }
  void visit(Visitor& v) override {
    WithoutWeight others(v);
    M::visit(others);
    v.child("parametrizations", parametrizations_);
  }
  P& parametrization() { return parametrizations_.of_weight; }

 private:
  struct List : Module {
    P of_weight;
    explicit List(P p) : of_weight(std::move(p)) {}
    Tensor forward(const Tensor& x) override { return of_weight.forward(x); }
    void visit(Visitor& v) override { v.child("weight", of_weight); }
  };
  /// Passes everything on except the weight.
  class WithoutWeight final : public Visitor {
   public:
    explicit WithoutWeight(Visitor& to) : to_(to) {}
    void parameter(std::string_view name, Tensor& tensor) override {
      if (name != "weight") to_.parameter(name, tensor);
    }
    void buffer(std::string_view name, Tensor& tensor) override { to_.buffer(name, tensor); }
    void non_persistent_buffer(std::string_view name, Tensor& tensor) override {
      to_.non_persistent_buffer(name, tensor);
    }
    void child(std::string_view name, Module& module) override { to_.child(name, module); }

   private:
    Visitor& to_;
  };

  void compute() { M::weight = parametrizations_.of_weight.weight(); }

  List parametrizations_;
};

template <class M>
Parametrized<M, WeightNorm> weight_norm(M layer, const WeightNormOptions& options = {}) {
  return {std::move(layer), options};
}

template <class M>
Parametrized<M, SpectralNorm> spectral_norm(M layer, SpectralNormOptions options = {}) {
  constexpr bool is_transposed = requires { layer.options.output_padding; };
  if (!options.dim) options.dim = is_transposed ? 1 : 0;
  return {std::move(layer), options};
}

}  // namespace rondo::nn
