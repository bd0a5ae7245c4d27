#pragma once
// ModelCall: a call of a model with its arguments, whatever the signature of its forward, for code
// that runs the same call with other tensors: summaries, traces, exports.

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "autograd/each_tensor.h"
#include "nn/module.h"

namespace rondo::nn {

struct ModelCall {
  Module& model;
  /// The tensors of the arguments. Names are those of struct members, or "input", or "input_0",
  /// "input_1", … if there are several. Undefined tensors are left out.
  std::vector<NamedTensor> inputs;
  /// Calls the model with other tensors as its inputs. Returns the tensors of the result, which are
  /// named likewise: "output".
  std::function<std::vector<NamedTensor>(const Tensors& inputs)> run;
};

namespace detail {
/// The defined tensors of `value`, an argument or a result; `what` replaces a missing name.
template <class T>
std::vector<NamedTensor> named_tensors(const T& value, const std::string& what) {
  std::vector<NamedTensor> named;
  each_tensor(value, [&](const std::string& path, const Tensor& x) {
    // Without the position in a tuple: "1.mask" is the mask, and "1" has no name.
    const std::size_t name = path.find_first_not_of("0123456789.");
    if (x.defined()) named.push_back({name == std::string::npos ? what : path.substr(name), x});
  });
  std::size_t unnamed = 0, i = 0;
  for (const NamedTensor& entry : named) unnamed += entry.name == what ? 1 : 0;
  for (NamedTensor& entry : named) {
    if (unnamed > 1 && entry.name == what) entry.name += concat('_', i++);
  }
  return named;
}
}  // namespace detail

/// The arguments are as the model's operator() takes them. The model must outlive the result.
template <class M, class... Args>
ModelCall call_of(M& model, const Args&... args) {
  using Arguments = std::tuple<Args...>;
  const Arguments arguments(args...);
  return {model, detail::named_tensors(arguments, "input"), [&model, arguments](const Tensors& x) {
            Arguments with = arguments;
            std::size_t i = 0;
            each_tensor(with, [&](const std::string&, Tensor& place) {
              if (place.defined()) place = x.at(i++);
            });
            return detail::named_tensors(
                std::apply([&](const auto&... a) { return model(a...); }, with), "output");
          }};
}

}  // namespace rondo::nn
