// Goes through all records side by side. At the first difference the rank that differs from most
// others is guilty. Without a difference it is the rank that called a collective long after the
// others.
#include <algorithm>
#include <cstddef>

#include "exercise.h"

int guilty_rank(const std::vector<Record>& records) {
  const std::size_t calls =
      std::ranges::min(records, {}, [](const Record& r) { return r.calls.size(); }).calls.size();
  for (std::size_t i = 0; i < calls; ++i) {
    const auto like = [&](const Record& record) {
      return std::ranges::count_if(
          records, [&](const Record& r) { return r.calls[i].text == record.calls[i].text; });
    };
    const auto fewest = std::ranges::min_element(records, {}, like);
    if (like(*fewest) < std::ssize(records)) return static_cast<int>(fewest - records.begin());
    const auto issued = [&](const Record& r) { return r.calls[i].issued; };
    const auto [last, first] = std::ranges::minmax_element(records, {}, issued);
    if (issued(*first) - issued(*last) > 1) return static_cast<int>(last - records.begin());
  }
  return -1;
}
