#pragma once
// Compares an op with PyTorch: the cases that tests/golden/make_ops.py wrote to ops.txt.

#include <functional>
#include <map>
#include <string>

#include "support/golden.h"
#include "support/op_table.h"

namespace rondo::test {

/// Runs f on NAME.in0 …, in f32 and in f64. Compares the outputs with NAME.out0 … and the gradients
/// of sum(w · out) with NAME.grad0 …, where w are the fixed numbers of make_ops.py. `length` is the
/// number of terms that are summed into one element. `scale` is the size of the intermediate
/// numbers, if it exceeds that of the results. Fails if ops.txt has no such case, or has more
/// outputs than f returned.
void expect_golden(const std::string& name, const OpFunction& f, std::int64_t length = 1,
                   double scale = 1);

/// A case that golden.case wrote to another file. Runs f on NAME.0, NAME.1, …, in f64 and in f32.
/// Compares the result with NAME.y, and the gradients of sum(w y), where w_k = (k mod 7 - 3) / 2,
/// with NAME.d0, ….
void expect_case(const Golden& golden, const std::string& name,
                 const std::function<Tensor(const Tensors&)>& f, std::int64_t length = 1,
                 double scale = 1);

using GoldenCases = std::map<std::string, std::function<Tensor(const Tensors&)>>;
/// A table of such cases in f64 only, for ops that are composed of many others. No case adds more
/// than `length` terms, forward and backward.
void expect_cases(const char* file, const GoldenCases& cases, std::int64_t length = 64);

}  // namespace rondo::test
