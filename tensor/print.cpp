// Prints tensors exactly as PyTorch does (torch/_tensor_str.py with its default options):
//
//   tensor([[1.0000, 2.5000],
//           [3.0000,    nan]], dtype=f64)
//
// All numbers of a tensor share one format, chosen from those shown that are finite and nonzero:
// without decimals ("1.") if all are whole; otherwise in scientific notation if they span more than
// three decades or leave 1e-4 … 1e8; otherwise with four decimals. For more than 1000 elements,
// only three at each end of each dimension are shown. Other properties follow the numbers. The
// dtype is named unless it is what the literal suggests (f32, i64, bool); the names are rondo's.

#include <atomic>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>

#include "tensor/backend.h"

namespace rondo {
namespace {

std::atomic<std::string (*)(const Tensor&)> tape_description{nullptr};

constexpr std::int64_t threshold = 1000, edge_items = 3, line_width = 80;

std::string printf_string(const char* format, int width, double value) {
  char text[400];  // the longest: DBL_MAX without exponent, 309 digits
  std::snprintf(text, sizeof text, format, width, value);
  return text;
}

/// The tensor in memory that this process can read: itself, or a copy on the CPU.
Tensor readable(const Tensor& x) {
  if (x.device().is_cpu()) return x;
  Tensor y = Tensor::empty(x.shape(), {.dtype = x.dtype()});
  backend(x).copy(x, y);
  return y;
}

class Printer {
 public:
  explicit Printer(const Tensor& x)
      : x_(readable(x)), dtype_(x.dtype()), summarize_(x.numel() > threshold) {
    if (x.numel() == 0) return;
    if (is_floating(dtype_)) choose_float_format();
    for_each_shown(0, 0, [&](std::int64_t at) { widen(at); });
  }

  /// The elements of dimensions `dim` and later, at `offset`, indented by `indent` columns.
  std::string block(std::int64_t dim, std::int64_t offset, std::int64_t indent) const {
    if (dim == x_.dim()) return padded(offset);
    if (dim + 1 == x_.dim()) return row(offset, indent);
    const std::int64_t size = x_.shape()[dim];
    std::string separator = ",";
    separator.append(static_cast<std::size_t>(x_.dim() - dim - 1), '\n');
    separator.append(static_cast<std::size_t>(indent + 1), ' ');
    std::string text = "[";
    for (std::int64_t i = 0; i < size; ++i) {
      if (i > 0) text += separator;
      if (skips(size, i)) {
        text += "...";
        i = size - edge_items - 1;
      } else {
        text += block(dim + 1, offset + i * x_.strides()[dim], indent + 1);
      }
    }
    return text + "]";
  }

 private:
  /// Whether the items from i on, up to the last three, are replaced by "...".
  bool skips(std::int64_t size, std::int64_t i) const {
    return summarize_ && size > 2 * edge_items && i == edge_items;
  }

  /// Calls f(offset) for every element that will be shown.
  template <class F>
  void for_each_shown(std::int64_t dim, std::int64_t offset, const F& f) const {
    if (dim == x_.dim()) return f(offset);
    const std::int64_t size = x_.shape()[dim];
    for (std::int64_t i = 0; i < size; ++i) {
      if (skips(size, i)) i = size - edge_items;
      for_each_shown(dim + 1, offset + i * x_.strides()[dim], f);
    }
  }

  double real(std::int64_t at) const {
    return visit_dtype(dtype_, [&]<class T>() -> double {
      return static_cast<double>(static_cast<const T*>(x_.data_ptr())[at]);
    });
  }
  std::int64_t whole(std::int64_t at) const {
    return visit_dtype(dtype_, [&]<class T>() -> std::int64_t {
      return static_cast<std::int64_t>(static_cast<const T*>(x_.data_ptr())[at]);
    });
  }

  void choose_float_format() {
    double smallest = HUGE_VAL, largest = 0;
    for_each_shown(0, 0, [&](std::int64_t at) {
      const double v = real(at), size = std::abs(v);
      if (!std::isfinite(v) || v == 0) return;
      smallest = std::min(smallest, size);
      largest = std::max(largest, size);
      if (v != std::ceil(v)) whole_numbers_ = false;
    });
    scientific_ = largest > 0 && (largest / smallest > 1000 || largest > 1e8 || smallest < 1e-4);
  }

  void widen(std::int64_t at) {
    if (is_floating(dtype_)) {
      const double v = real(at);
      if (!std::isfinite(v) || v == 0) return;  // as PyTorch: not counted for the width
    }
    width_ = std::max(width_, element(at).size());
  }

  std::string element(std::int64_t at) const {
    if (dtype_ == DType::boolean) return whole(at) ? "True" : "False";
    if (!is_floating(dtype_)) return std::to_string(whole(at));
    const double v = real(at);
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    if (scientific_) return printf_string("%.*e", 4, v);
    return whole_numbers_ ? printf_string("%.*f", 0, v) + "." : printf_string("%.*f", 4, v);
  }

  std::string padded(std::int64_t at) const {
    std::string text = element(at);
    if (text.size() < width_) text.insert(0, width_ - text.size(), ' ');
    return text;
  }

  /// One innermost dimension, broken into lines of `line_width` columns.
  std::string row(std::int64_t offset, std::int64_t indent) const {
    const std::int64_t size = x_.shape().back(), stride = x_.strides().back();
    const std::int64_t per_line =
        std::max<std::int64_t>(1, (line_width - indent) / (static_cast<std::int64_t>(width_) + 2));
    std::string new_line = ",\n";
    new_line.append(static_cast<std::size_t>(indent + 1), ' ');
    std::string text = "[";
    for (std::int64_t i = 0, item = 0; i < size; ++i, ++item) {
      if (item > 0) text += item % per_line == 0 ? new_line : ", ";
      if (skips(size, i)) {
        text += " ...";
        i = size - edge_items - 1;
      } else {
        text += padded(offset + i * stride);
      }
    }
    return text + "]";
  }

  Tensor x_;
  DType dtype_;
  bool summarize_;
  bool whole_numbers_ = true, scientific_ = false;
  std::size_t width_ = 1;
};

/// "(2, 3)", "(0,)": a tuple in Python's notation.
std::string tuple(const Dims& dims) {
  std::string text = "(";
  for (std::int64_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + (dims.size() == 1 ? ",)" : ")");
}

std::vector<std::string> suffixes_of(const Tensor& x) {
  std::vector<std::string> suffixes;
  if (!x.device().is_cpu()) suffixes.push_back("device='" + x.device().str() + "'");
  if (x.numel() == 0 && x.dim() != 1) suffixes.push_back("size=" + tuple(x.shape()));
  const bool obvious = x.numel() == 0
                           ? x.dtype() == f32
                           : x.dtype() == f32 || x.dtype() == i64 || x.dtype() == boolean;
  if (!obvious) suffixes.push_back("dtype=" + std::string(name_of(x.dtype())));
  auto* describe = tape_description.load();
  std::string tape = describe != nullptr ? describe(x) : "";
  if (!tape.empty()) suffixes.push_back(std::move(tape));
  return suffixes;
}

}  // namespace

void set_tape_description(std::string (*describe)(const Tensor&)) { tape_description = describe; }

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  if (!x.defined()) return out << "tensor(undefined)";
  constexpr std::int64_t indent = 7;  // the width of "tensor("
  const std::string prefix(static_cast<std::size_t>(indent), ' ');
  std::string text = x.numel() == 0 ? "[]" : Printer(x).block(0, 0, indent);
  // PyTorch measures the last line without "tensor(", but adds two columns.
  std::size_t last_line = text.size() - (text.rfind('\n') + 1) + 2;
  for (const std::string& suffix : suffixes_of(x)) {
    const bool fits = last_line + suffix.size() + 2 <= line_width;
    text += (fits ? ", " : ",\n" + prefix) + suffix;
    last_line = fits ? last_line + suffix.size() + 2 : prefix.size() + suffix.size();
  }
  return out << "tensor(" << text << ')';
}

}  // namespace rondo
