#pragma once
// each_tensor: the tensors inside the arguments and results of a function, for code that works with
// functions of any signature: checkpoint, hooks, DataParallel, traces. Arguments and results may
// contain
//
// - tensors, and vectors, arrays, optionals, pairs, tuples and maps of them,
// - structs with a `visit` that lists their members by name:
//
//     struct Detections {
//       Tensor boxes, scores;
//       template <class V>
//       void visit(V&& v) {
//         v("boxes", boxes);
//         v("scores", scores);
//       }
//     };
//
// - and values without tensors: numbers, texts, enums, pointers, structs of these.
//
// A struct with a reference or a const member needs a `visit`, too: the reference may be one to a
// tensor.

#include <array>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace rondo {

namespace detail {
/// A vector, a map, an array.
template <class T>
concept IsRange = requires(T& values) {
  values.begin();
  values.end();
  typename T::value_type;
};
template <class T>
concept IsTuple = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept IsOptional = requires(T& value) {
  requires std::same_as<std::remove_cv_t<T>, std::optional<typename T::value_type>>;
};
template <class T>
concept IsReferenceWrapper = std::same_as<T, std::reference_wrapper<typename T::type>>;
/// Its elements may contain tensors: a std::span of tensors is trivially copyable.
template <class T>
concept IsRangeOfObjects = IsRange<T> && !std::is_trivially_copyable_v<typename T::value_type>;
/// It contains no tensor, which is not trivially copyable, and no reference to one, which could not
/// be assigned.
template <class T>
concept IsPlain = std::is_trivially_copyable_v<T> &&
                  (std::is_copy_assignable_v<T> || std::is_array_v<T>)&&!IsRangeOfObjects<T> &&
                  !IsReferenceWrapper<T>;
template <class T>
concept VisitsTensors = requires(T& value) {
  value.visit([](const char*, auto&) {});
};

inline std::string member_name(const std::string& owner, const std::string& member) {
  return owner.empty() ? member : owner + "." + member;
}
}  // namespace detail

/// Calls f(name, tensor) for each tensor in `value`, in order, undefined ones included. Names
/// consist of member names, map keys and positions: "boxes", "1.scores". A type that may hide
/// tensors does not compile.
template <class T, class F>
void each_tensor(T& value, const F& f, const std::string& name = {}) {
  using Value = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Value, Tensor>) {
    f(name, value);
  } else if constexpr (detail::VisitsTensors<Value>) {
    const_cast<Value&>(value).visit([&](const char* member, auto& inner) {
      each_tensor(inner, f, detail::member_name(name, member));
    });
  } else if constexpr (detail::IsPlain<Value> || std::is_same_v<Value, std::string>) {
    // Nothing to do.
  } else if constexpr (detail::IsReferenceWrapper<Value>) {
    each_tensor(value.get(), f, name);
  } else if constexpr (detail::IsOptional<Value>) {
    if (value) each_tensor(*value, f, name);
  } else if constexpr (requires { typename Value::mapped_type; }) {
    for (auto& [key, inner] : value) each_tensor(inner, f, detail::member_name(name, key));
  } else if constexpr (detail::IsRange<Value>) {
    std::size_t i = 0;
    for (auto& inner : value) each_tensor(inner, f, detail::member_name(name, std::to_string(i++)));
  } else if constexpr (detail::IsTuple<Value>) {
    std::apply(
        [&](auto&... inner) {
          std::size_t i = 0;
          (each_tensor(inner, f, detail::member_name(name, std::to_string(i++))), ...);
        },
        value);
  } else {
    static_assert(detail::VisitsTensors<Value>,
                  "an argument or a result of this type may contain tensors: give it a member "
                  "`template <class V> void visit(V&& v) { v(\"x\", x); … }` that lists them");
  }
}

/// The tensors of `value`, in order.
template <class T>
Tensors tensors_of(const T& value) {
  Tensors tensors;
  each_tensor(value, [&](const std::string&, const Tensor& x) { tensors.push_back(x); });
  return tensors;
}

/// Replaces the tensors of `value`, in order.
template <class T>
void put_tensors(T& value, const Tensors& tensors) {
  std::size_t i = 0;
  each_tensor(value, [&](const std::string&, Tensor& x) { x = tensors.at(i++); });
}

}  // namespace rondo
