#include "extras/doctor/facts.h"

#include <algorithm>

#include "extras/doctor/facts_json.h"
#include "tensor/error.h"

namespace rondo::doctor {

// Names from the kernel or a launcher need not be UTF-8.
std::string to_text(const Rank& rank) {
  return nlohmann::json(rank).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Rank rank_from_text(const std::string& text) { return nlohmann::json::parse(text).get<Rank>(); }

std::string name_numbers(const std::vector<int>& numbers) {
  std::vector<int> sorted = numbers;
  std::ranges::sort(sorted);
  std::string text;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    text += concat(text.empty() ? "" : ", ", sorted[i]);
    if (last > i) text += concat("-", sorted[last]);
    i = last + 1;
  }
  return text;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string name_ranks(const std::vector<int>& ranks) {
  return concat(ranks.size() == 1 ? "rank " : "ranks ", name_numbers(ranks));
}

}  // namespace rondo::doctor
