#include "tensor/dtype.h"

#include <array>
#include <ostream>

#include "tensor/error.h"

namespace rondo {
namespace {

constexpr std::array<std::string_view, 9> names = {"f64", "f32", "bf16", "f16", "i64",
                                                   "i32", "u8",  "i8",   "bool"};

}  // namespace

std::string_view name_of(DType dtype) { return names[static_cast<std::size_t>(dtype)]; }

DType parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<DType>(i);
  }
  throw DTypeError(
      concat("\"", name, "\" is not a dtype; expected one of f64 f32 bf16 f16 i64 i32 u8 i8 bool"));
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (category_of(a) != category_of(b)) return category_of(a) > category_of(b) ? a : b;
  // Within a category the wider type wins; two types of equal width promote to the next wider one.
  if (size_of(a) == size_of(b)) return is_floating(a) ? DType::f32 : DType::i32;
  return size_of(a) > size_of(b) ? a : b;
}

const char* how_to_convert(DType a, DType b) {
  return a == DType::u8 || b == DType::u8
             ? "; convert images of bytes to floats with data::ImageTransform, other bytes with "
               "x.to(f32)"
             : "; convert one of them with to(dtype)";
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

}  // namespace rondo
