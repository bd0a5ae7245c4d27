#pragma once
// Functions of tensors held against PyTorch: results and gradients of a table of cases.

#include <functional>
#include <map>
#include <string>

#include "tensor/tensor.h"

namespace rondo::test {

using GoldenCases = std::map<std::string, std::function<Tensor(const Tensors&)>>;

/// For each case: f(NAME.0, NAME.1, …) is NAME.y, and the gradients of sum(w · y), with
/// w_k = (k mod 7 - 3) / 2, are NAME.d0, …, as tests/golden/cases.py writes them. f64.
void expect_golden_cases(const char* file, const GoldenCases& cases);

}  // namespace rondo::test
