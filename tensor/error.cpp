#include "tensor/error.h"

#include <sstream>

namespace rondo::detail {

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

}  // namespace rondo::detail
