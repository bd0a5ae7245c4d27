#pragma once
// How files of weights store elements, and the dtype in which rondo has their values exactly.
// Internal to io/.
//
//   in the file                  here
//   rondo's own dtypes           as they are
//   i16, u16                     i32
//   u32, u64                     i64; numbers of 2^63 and more have no dtype here
//   f8 in its five forms         f32
//   complex of f16, f32 or f64   the real dtype, with a last dimension of 2 (torch.view_as_real)
//
// Sources: torch/_utils.py, https://github.com/huggingface/safetensors; the forms of f8 are those
// of the OCP specifications OFP8 (e4m3fn, e5m2) and MX (e8m0fnu), and of
// https://arxiv.org/abs/2206.02915 (the two that end in fnuz).

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace rondo::io::detail {

struct StoredType {
  std::string_view safetensors;     // "F32"; empty: the format has no such type
  std::string_view torch;           // "float32"; empty: PyTorch has no such dtype
  std::string_view storage;         // "FloatStorage"; empty: its tensors are in an UntypedStorage
  std::uint64_t bytes = 0;          // of an element
  std::optional<DType> dtype = {};  // that holds the values; none: rondo lacks it
  bool is_complex = false;          // an element is two of `dtype`
  /// Writes `n` elements as `dtype`; false if one does not fit. Null: they have that form already.
  bool (*convert)(const void* from, std::uint64_t n, void* to) = nullptr;
};

/// All that is known, rondo's own dtypes first, in their order.
std::span<const StoredType> stored_types();

}  // namespace rondo::io::detail
