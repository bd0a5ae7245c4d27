#pragma once
// How two ranks' values are combined into one: the kernels that dist/collectives/algorithms run on
// arriving chunks.

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>

#include "tensor/dtype.h"

namespace rondo::dist {

/// What an all-reduce computes over the ranks. avg is the sum divided by the number of ranks; band
/// and bor are bitwise and, bitwise or.
enum class ReduceOp : std::uint8_t { sum, avg, min, max, prod, band, bor };

const char* name_of(ReduceOp op);
std::ostream& operator<<(std::ostream& out, ReduceOp op);

/// into[i] = into[i] op from[i]. bf16 and f16 are computed in f32 and rounded once per operation.
/// Integers wrap around. For bool, sum, max and bor are "or"; prod, min and band are "and". min and
/// max propagate NaN. avg adds like sum: `divide` comes last.
void combine(void* into, const void* from, std::int64_t count, DType dtype, ReduceOp op);

/// into[i] = (into[i] + from[i]) / divisor, in one pass, rounded once: the last addition of an
/// average. Floating dtypes only.
void combine_and_divide(void* into, const void* from, std::int64_t count, DType dtype, int divisor);

/// into[t][i] = (from[0][i] op from[1][i] op …) / divisor for every t, combined in this order. bf16
/// and f16 are computed in f32 and rounded once. `into` may share memory with `from`, element for
/// element. Divisors other than 1 are allowed only for avg of two or more tensors.
void combine_all(std::span<void* const> into, std::span<const void* const> from, std::int64_t count,
                 DType dtype, ReduceOp op, int divisor);

/// data[i] /= divisor. Floating dtypes only.
void divide(void* data, std::int64_t count, DType dtype, int divisor);

/// Throws DTypeError if the dtype does not support the op: the average of integers, bitwise
/// operations on floats.
void check_reducible(DType dtype, ReduceOp op);

}  // namespace rondo::dist
