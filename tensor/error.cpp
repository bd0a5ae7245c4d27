#include "tensor/error.h"

#include <cctype>
#include <sstream>
#include <utility>

#include "tensor/record_function.h"

namespace rondo {

void Error::add_place(const std::string& place) {
  if (std::exchange(has_place_, true)) return;
  std::runtime_error::operator=(std::runtime_error(concat(what(), " (in ", place, ")")));
}

namespace detail {

void Part::print_text(std::ostream& out, const Part& part) {
  out << std::string_view(static_cast<const char*>(part.value_.at), part.length_);
}
void Part::print_character(std::ostream& out, const Part& part) {
  out << static_cast<char>(part.value_.integer);
}
void Part::print_integer(std::ostream& out, const Part& part) { out << part.value_.integer; }
void Part::print_natural(std::ostream& out, const Part& part) { out << part.value_.natural; }
void Part::print_real(std::ostream& out, const Part& part) { out << part.value_.real; }

std::string concat(std::initializer_list<Part> parts) {
  std::ostringstream out;
  for (const Part& part : parts) part.print(out);
  return std::move(out).str();
}

std::string message(std::initializer_list<Part> parts) {
  std::string text = concat(parts);
  const std::string op = OpName::called("");
  // clamp_ computes clamp: not "clamp_: clamp: …".
  if (op.ends_with('_') && text.starts_with(op.substr(0, op.size() - 1) + ": "))
    text.erase(0, op.size() + 1);
  const auto is_in_a_name = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  const bool names_it = op.empty() || (text.starts_with(op) && !is_in_a_name(text[op.size()]));
  return names_it ? text : concat({op, ": ", text});
}

}  // namespace detail
}  // namespace rondo
