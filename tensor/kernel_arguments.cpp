#include "tensor/kernel_arguments.h"

#include <array>

namespace rondo {
namespace {

/// "add" for add_scalar.
constexpr std::string_view without_scalar(std::string_view name) {
  constexpr std::string_view scalar = "_scalar";
  return name.substr(0, name.size() - (name.ends_with(scalar) ? scalar.size() : 0));
}

// In the order of the enumerations.
#define RONDO_ROW(name, ...) without_scalar(#name),
constexpr std::array unary_names = {RONDO_UNARY_OPS(RONDO_ROW)};
constexpr std::array binary_names = {RONDO_BINARY_OPS(RONDO_ROW)};
#undef RONDO_ROW
constexpr std::array reduction_names = {"sum", "prod", "max", "min", "all", "any", "sum_squares"};
static_assert(reduction_names.size() == static_cast<std::size_t>(ReductionOp::sum_squares) + 1);

}  // namespace

std::string_view name_of(UnaryOp op) { return unary_names[static_cast<std::size_t>(op)]; }
std::string_view name_of(BinaryOp op) { return binary_names[static_cast<std::size_t>(op)]; }
std::string_view name_of(ReductionOp op) { return reduction_names[static_cast<std::size_t>(op)]; }

}  // namespace rondo
