#pragma once
// StateDict: the tensors of a model by name, in order.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace rondo::nn {

struct NamedTensor {
  std::string name;  // dotted path: "layer1.0.conv1.weight"
  Tensor tensor;
};

/// A list of names and tensors that can also be read by name:
///
///   nn::StateDict state = net.state_dict();
///   state["fc.weight"] = rd::zeros({10, 512});   // of an entry that exists
///   state.pop("fc.bias");
///   for (auto& [name, tensor] : state) …         // in the order of declaration, as in PyTorch
class StateDict : public std::vector<NamedTensor> {
 public:
  using std::vector<NamedTensor>::vector;
  StateDict() = default;
  StateDict(std::vector<NamedTensor> entries) : std::vector<NamedTensor>(std::move(entries)) {}

  using std::vector<NamedTensor>::operator[];  // by position
  /// The tensor with this name. Throws Error listing similar names if no entry has it.
  Tensor& operator[](std::string_view name);
  const Tensor& operator[](std::string_view name) const;
  bool contains(std::string_view name) const;
  std::vector<std::string> keys() const;
  /// Replaces the tensor with this name, or appends it.
  void insert_or_assign(std::string_view name, Tensor tensor);
  /// Removes the entry and returns its tensor. Throws as operator[].
  Tensor pop(std::string_view name);
};

namespace detail {
/// "; similar names: fc.weight, fc.bias": those of `names` that `name` may be a typing error for,
/// or nothing.
std::string similar_names(std::string_view name, const std::vector<std::string>& names);
}  // namespace detail

}  // namespace rondo::nn
