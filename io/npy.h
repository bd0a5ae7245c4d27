#pragma once
// NumPy's files: .npy, one array; .npz, a zip archive of arrays by name.
//
//   Tensor x = io::load_npy("x.npy");                    // np.save("x.npy", x)
//   nn::StateDict arrays = io::load_npz("arrays.npz");   // np.savez("arrays.npz", x=x, y=y)
//
// Dtypes are those of io/stored_type.h: i16, u16, u32 and u64 become wider integers, and complex
// numbers get a last dimension of 2. Arrays in Fortran's order become contiguous, and big-endian
// ones are converted. Arrays of objects need Python's pickle and are refused, as are strings, dates
// and structs.
//
// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#include <cstddef>
#include <span>
#include <string>

#include "nn/module.h"
#include "tensor/tensor.h"

namespace rondo::io {

/// Throws IoError naming the file and the fault: the file is missing, truncated or longer than its
/// header says, the header is not that of an array, or the dtype is not a dtype of numbers. Uses at
/// most 16 bytes of memory for each byte of the file, plus 1 MiB.
Tensor load_npy(const std::string& path);
/// Like load_npy, for a file's bytes in memory; error messages call it `name`.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name);

/// The arrays of an archive in its order, by their names without ".npy", plain or compressed
/// (np.savez, np.savez_compressed). Throws IoError as load_npy does, and for an archive that is
/// damaged, has another file in it, or has a name twice. Memory is bounded by load_npy's bound for
/// the unpacked arrays, which have at most 1,032 bytes for each byte of the archive.
nn::StateDict load_npz(const std::string& path);

/// Writes the bytes that np.save writes for a contiguous array. Throws DTypeError for bf16, which
/// NumPy does not have, and IoError if the file cannot be written.
void save_npy(const std::string& path, const Tensor& x);

}  // namespace rondo::io
