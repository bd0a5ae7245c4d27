#pragma once
// How files of weights store elements, and the rondo dtype that holds their values exactly.
// Internal to io/.
//
//   in the file                  in rondo
//   rondo's own dtypes           unchanged
//   i16, u16                     i32
//   u32, u64                     i64; values of 2^63 and more cannot be read
//   f8 in its five formats       f32
//   complex of f16, f32 or f64   the real dtype, with a last dimension of 2 (torch.view_as_real)
//
// Sources: torch/_utils.py, https://github.com/huggingface/safetensors; the f8 formats are those of
// the OCP specifications OFP8 (e4m3fn, e5m2) and MX (e8m0fnu), and of
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
  std::uint64_t bytes = 0;          // per element
  std::optional<DType> dtype = {};  // that holds the values; nullopt: rondo has none
  bool is_complex = false;          // an element is two of `dtype`
  /// Writes `n` elements as `dtype`; returns false if a value does not fit. Null: no conversion
  /// needed.
  bool (*convert)(const void* from, std::uint64_t n, void* to) = nullptr;
};

/// All known types: rondo's own dtypes first, in their order.
std::span<const StoredType> stored_types();

}  // namespace rondo::io::detail
