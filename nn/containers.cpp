#include "nn/containers.h"

#include <algorithm>

#include "autograd/checkpoint.h"

namespace rondo::nn {
namespace detail {

template <class T>
bool NamedList<T>::contains(const std::string& key) const {
  return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
}

template <class T>
T& NamedList<T>::at(std::int64_t i) {
  const std::int64_t at = i < 0 ? i + size() : i;
  require(at >= 0 && at < size(), "container: index ", i, " in a container of ", size(), " ",
          what_);
  return elements_[static_cast<std::size_t>(at)];
}

template <class T>
const T& NamedList<T>::at(const std::string& key) const {
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  require(found != keys_.end(), "container: no element \"", key, "\" in a container of ", size(),
          " ", what_);
  return elements_[static_cast<std::size_t>(found - keys_.begin())];
}

template <class T>
void NamedList<T>::insert(const std::string& key, T element) {
  require(!key.empty() && key.find('.') == std::string::npos, "container: \"", key,
          "\" is not a valid key: it must not be empty or contain a dot");
  if (contains(key)) {
    at(key) = std::move(element);
    return;
  }
  keys_.push_back(key);
  elements_.push_back(std::move(element));
}

template <class T>
void NamedList<T>::add(const std::string& key, T element) {
  require(!contains(key), "container: two elements are called \"", key, "\"");
  insert(key, std::move(element));
}

template <class T>
void NamedList<T>::erase(const std::string& key) {
  elements_.erase(elements_.begin() + (&at(key) - elements_.data()));
  keys_.erase(std::find(keys_.begin(), keys_.end(), key));
}

template class NamedList<AnyModule>;
template class NamedList<Tensor>;

void ModuleVector::visit(Visitor& v) {
  for (std::int64_t i = 0; i < size(); ++i)
    v.child(modules_.keys()[static_cast<std::size_t>(i)], (*this)[i]);
}

}  // namespace detail

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (AnyModule& module : *this) y = grad_checkpointing ? checkpoint(module, y) : module(y);
  return y;
}

}  // namespace rondo::nn
