#include "nn/state_dict.h"

#include <algorithm>
#include <numeric>

#include "tensor/error.h"

namespace rondo::nn {
namespace {

/// The least number of characters to insert, delete or replace that turns a into b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// Whether one name is the end of the other, after a dot: "fc.weight" and "module.fc.weight".
bool has_prefix_more(std::string_view a, std::string_view b) {
  const std::string_view longer = a.size() > b.size() ? a : b,
                         shorter = a.size() > b.size() ? b : a;
  return longer.size() > shorter.size() && longer.ends_with(shorter) &&
         longer[longer.size() - shorter.size() - 1] == '.';
}

auto find(auto& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &NamedTensor::name);
  require(found != entries.end(), "state dict: no tensor is called \"", name, '"',
          detail::similar_names(name, entries.keys()));
  return found;
}

}  // namespace

std::string detail::similar_names(std::string_view name, const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::vector<std::pair<std::size_t, const std::string*>> near;
  for (const std::string& other : names) {
    if (other.empty()) continue;  // the model itself
    const std::size_t distance = has_prefix_more(name, other) ? 0 : edit_distance(name, other);
    if (distance <= 1 + name.size() / 3) near.emplace_back(distance, &other);
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, const std::string*>::first);
  std::string text;
  for (std::size_t i = 0; i < std::min(near.size(), most); ++i)
    text += (i == 0 ? "; similar names: " : ", ") + *near[i].second;
  return text;
}

Tensor& StateDict::operator[](std::string_view name) { return find(*this, name)->tensor; }
const Tensor& StateDict::operator[](std::string_view name) const {
  return find(*this, name)->tensor;
}

bool StateDict::contains(std::string_view name) const {
  return std::ranges::find(*this, name, &NamedTensor::name) != end();
}

std::vector<std::string> StateDict::keys() const {
  std::vector<std::string> names;
  for (const NamedTensor& entry : *this) names.push_back(entry.name);
  return names;
}

void StateDict::insert_or_assign(std::string_view name, Tensor tensor) {
  const auto found = std::ranges::find(*this, name, &NamedTensor::name);
  if (found == end())
    push_back({std::string(name), std::move(tensor)});
  else
    found->tensor = std::move(tensor);
}

Tensor StateDict::pop(std::string_view name) {
  const auto found = find(*this, name);
  Tensor tensor = found->tensor;
  erase(found);
  return tensor;
}

}  // namespace rondo::nn
