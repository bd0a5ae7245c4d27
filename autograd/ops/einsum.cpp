// einsum and tensordot: products over pairs of dimensions, as matrix products.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "tensor/error.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using Labels =
    std::vector<int>;  // a letter's code, or ellipsis + how many dimensions from the right
constexpr int ellipsis = 256;

bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// The labels of one term, whose "..." stands for so many dimensions.
Labels parse_term(std::string_view term, std::string_view equation, std::int64_t ellipsis_dims) {
  Labels labels;
  bool seen = false;
  for (std::size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (term.substr(i, 3) == "...") {
      require(!seen, "einsum: \"", equation, "\" has two \"...\" in one term");
      seen = true;
      for (std::int64_t k = ellipsis_dims; k > 0; --k)
        labels.push_back(ellipsis + static_cast<int>(k));
      i += 2;
      continue;
    }
    require((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), "einsum: \"", equation, "\" has '", c,
            "'; expected letters, \",\", \"->\" and \"...\"");
    labels.push_back(c);
  }
  return labels;
}

struct Labelled {
  Tensor x;
  Labels labels;
};

/// The diagonal of two dimensions with one label, until each label occurs once.
Labelled without_repeats(Labelled operand, std::string_view equation) {
  for (std::size_t i = 0; i < operand.labels.size(); ++i) {
    for (std::size_t j = i + 1; j < operand.labels.size(); ++j) {
      if (operand.labels[i] != operand.labels[j]) continue;
      Tensor& x = operand.x;
      const auto a = static_cast<std::int64_t>(i), b = static_cast<std::int64_t>(j);
      const std::int64_t n = x.size(a);
      require<ShapeError>(n == x.size(b), "einsum: \"", equation, "\" takes the diagonal of ",
                          x.shape(), ", whose sizes ", n, " and ", x.size(b), " differ");
      x = diagonal(x, 0, a, b);
      const int label = operand.labels[i];
      operand.labels.erase(operand.labels.begin() + static_cast<std::ptrdiff_t>(j));
      operand.labels.erase(operand.labels.begin() + static_cast<std::ptrdiff_t>(i));
      operand.labels.push_back(label);
      return without_repeats(std::move(operand), equation);
    }
  }
  return operand;
}

/// Sums out the labels that are not in `kept`.
Labelled summed(Labelled operand, const Labels& kept) {
  Dims dims;
  Labels labels;
  for (std::size_t d = 0; d < operand.labels.size(); ++d) {
    if (has(kept, operand.labels[d])) {
      labels.push_back(operand.labels[d]);
    } else {
      dims.push_back(static_cast<std::int64_t>(d));
    }
  }
  if (!dims.empty()) operand.x = sum(operand.x, dims);
  return {operand.x, labels};
}

/// x with its dimensions in the order of `labels`, each of the size in `sizes`.
Tensor arranged(const Labelled& operand, const Labels& labels,
                const std::map<int, std::int64_t>& sizes) {
  Dims order, shape;
  for (const int label : labels) {
    order.push_back(std::find(operand.labels.begin(), operand.labels.end(), label) -
                    operand.labels.begin());
    shape.push_back(sizes.at(label));
  }
  const Tensor ordered = permute(operand.x, order);
  return ordered.shape() == shape ? ordered : expand(ordered, shape);
}

std::int64_t product_of(const Labels& labels, const std::map<int, std::int64_t>& sizes) {
  std::int64_t product = 1;
  for (const int label : labels) product *= sizes.at(label);
  return product;
}

/// One product of two operands, summed over the labels that nobody needs afterwards: a bmm.
/// Without such labels it is a product of elements.
Labelled contracted(const Labelled& a, const Labelled& b, const Labels& kept,
                    const std::map<int, std::int64_t>& sizes) {
  Labels batch, inner, left, right;
  for (const int label : a.labels) {
    if (!has(b.labels, label)) {
      left.push_back(label);
    } else {
      (has(kept, label) ? batch : inner).push_back(label);
    }
  }
  for (const int label : b.labels)
    if (!has(a.labels, label)) right.push_back(label);
  const auto joined = [](const Labels& x, const Labels& y, const Labels& z) {
    Labels all = x;
    all.insert(all.end(), y.begin(), y.end());
    all.insert(all.end(), z.begin(), z.end());
    return all;
  };
  const Labels labels = joined(batch, left, right);
  if (inner.empty()) {
    Tensor x = arranged(a, joined(batch, left, {}), sizes),
           y = arranged(b, joined(batch, right, {}), sizes);
    for (std::size_t i = 0; i < right.size(); ++i) x = unsqueeze(x, -1);
    for (std::size_t i = 0; i < left.size(); ++i) y = unsqueeze(y, std::ssize(batch));
    return {x * y, labels};
  }
  const std::int64_t n = product_of(batch, sizes), m = product_of(left, sizes),
                     k = product_of(inner, sizes), r = product_of(right, sizes);
  const Tensor x = reshape(arranged(a, joined(batch, left, inner), sizes), {n, m, k});
  const Tensor y = reshape(arranged(b, joined(batch, inner, right), sizes), {n, k, r});
  Dims shape;
  for (const int label : labels) shape.push_back(sizes.at(label));
  return {reshape(bmm(x, y), shape), labels};
}

}  // namespace

Tensor einsum(std::string_view equation, const Tensors& operands) {
  const OpRange op("einsum");
  require(!operands.empty(), "einsum: no operands");
  std::string text;
  for (const char c : equation)
    if (c != ' ') text += c;
  const std::size_t arrow = text.find("->");
  std::string_view inputs = std::string_view(text).substr(0, arrow);
  std::vector<std::string_view> terms;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = inputs.find(',');
    terms.push_back(inputs.substr(0, end));
    inputs.remove_prefix(end == std::string_view::npos ? 0 : end + 1);
  }
  require(terms.size() == operands.size(), "einsum: \"", equation, "\" needs ", terms.size(),
          " operand(s), but got ", operands.size());

  std::vector<Labelled> all;
  std::map<int, std::int64_t> sizes;
  std::map<int, int> occurrences;
  std::int64_t ellipsis_dims = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const Tensor& x = operands[i];
    const bool has_ellipsis = terms[i].find("...") != std::string_view::npos;
    const std::int64_t letters = std::ssize(terms[i]) - (has_ellipsis ? 3 : 0);
    require<ShapeError>(has_ellipsis ? letters <= x.dim() : letters == x.dim(), "einsum: term \"",
                        terms[i], "\" does not fit an operand of shape ", x.shape());
    const std::int64_t extra = has_ellipsis ? x.dim() - letters : 0;
    ellipsis_dims = std::max(ellipsis_dims, extra);
    Labelled operand{x, parse_term(terms[i], equation, extra)};
    for (std::size_t d = 0; d < operand.labels.size(); ++d) {
      const std::int64_t size = x.size(static_cast<std::int64_t>(d));
      const auto [known, is_new] = sizes.emplace(operand.labels[d], size);
      ++occurrences[operand.labels[d]];
      if (!is_new && known->second == 1) known->second = size;
      require<ShapeError>(size == 1 || size == known->second, "einsum: \"", equation,
                          "\": a dimension of operand ", i, ", of shape ", x.shape(),
                          ", has the size ", size, ", but the same label has ", known->second,
                          " elsewhere");
    }
    all.push_back(without_repeats(std::move(operand), equation));
  }

  Labels output;
  if (arrow != std::string::npos) {
    output = parse_term(std::string_view(text).substr(arrow + 2), equation, ellipsis_dims);
    for (std::size_t i = 0; i < output.size(); ++i) {
      require(sizes.contains(output[i]), "einsum: the output of \"", equation, "\" has '",
              static_cast<char>(output[i]), "', which no operand has");
      require(std::count(output.begin(), output.end(), output[i]) == 1, "einsum: the output of \"",
              equation, "\" has '", static_cast<char>(output[i]), "' twice");
    }
  } else {
    for (std::int64_t k = ellipsis_dims; k > 0; --k)
      output.push_back(ellipsis + static_cast<int>(k));
    for (const auto& [label, count] : occurrences)
      if (label < ellipsis && count == 1) output.push_back(label);
  }

  Labelled result = all[0];
  for (std::size_t i = 1; i <= all.size(); ++i) {
    Labels kept = output;  // by the output and the operands to come
    for (std::size_t later = i + 1; later < all.size(); ++later)
      kept.insert(kept.end(), all[later].labels.begin(), all[later].labels.end());
    if (i == all.size()) break;
    Labels of_pair = kept;
    of_pair.insert(of_pair.end(), all[i].labels.begin(), all[i].labels.end());
    result = summed(std::move(result), of_pair);
    of_pair = kept;
    of_pair.insert(of_pair.end(), result.labels.begin(), result.labels.end());
    result = contracted(result, summed(all[i], of_pair), kept, sizes);
  }
  result = summed(std::move(result), output);
  return arranged(result, output, sizes);
}

TensordotDims::TensordotDims(std::int64_t n) : n(n) {
  require<ShapeError>(n >= 0, "tensordot: ", n, " dimensions; expected 0 or more");
}

Tensor tensordot(const Tensor& a, const Tensor& b, const TensordotDims& dims) {
  const OpRange op("tensordot");
  Dims of_a = dims.a, of_b = dims.b;
  if (dims.n >= 0) {
    require<ShapeError>(dims.n <= a.dim() && dims.n <= b.dim(), "tensordot: ", dims.n,
                        " dimensions, but the shapes are ", a.shape(), " and ", b.shape());
    of_a = of_b = Dims();
    for (std::int64_t d = 0; d < dims.n; ++d) {
      of_a.push_back(a.dim() - dims.n + d);
      of_b.push_back(d);
    }
  }
  require<ShapeError>(of_a.size() == of_b.size(), "tensordot: ", of_a.size(), " dimensions of a, ",
                      of_b.size(), " of b; expected equal numbers");
  Dims order_a, order_b, sizes;
  std::int64_t inner = 1;
  for (std::int64_t i = 0; i < of_a.size(); ++i) {
    of_a[i] = wrap_dim(of_a[i], a.dim(), "tensordot");
    of_b[i] = wrap_dim(of_b[i], b.dim(), "tensordot");
    require<ShapeError>(a.size(of_a[i]) == b.size(of_b[i]), "tensordot: dimension ", of_a[i],
                        " of ", a.shape(), " and dimension ", of_b[i], " of ", b.shape(),
                        " differ in size");
    inner *= a.size(of_a[i]);
  }
  std::int64_t m = 1, n = 1;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (std::find(of_a.begin(), of_a.end(), d) != of_a.end()) continue;
    order_a.push_back(d);
    sizes.push_back(a.size(d));
    m *= a.size(d);
  }
  for (const std::int64_t d : of_a) order_a.push_back(d);
  order_b = of_b;
  for (std::int64_t d = 0; d < b.dim(); ++d) {
    if (std::find(of_b.begin(), of_b.end(), d) != of_b.end()) continue;
    order_b.push_back(d);
    sizes.push_back(b.size(d));
    n *= b.size(d);
  }
  const Tensor x = reshape(permute(a, order_a), {m, inner}),
               y = reshape(permute(b, order_b), {inner, n});
  return reshape(matmul(x, y), sizes);
}

}  // namespace rondo
