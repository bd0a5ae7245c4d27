#pragma once
// Reads HDF5 files (.h5, .hdf5) with libhdf5, which also unpacks chunked and compressed data.
//
//   Tensor x = io::load_hdf5("train.h5", "images/x");
//   for (auto& [name, tensor] : io::load_hdf5("train.h5").tensors) …
//
// | type in the file | dtype |
// | --- | --- |
// | integers of 8, 32 and 64 bits | i8, u8, i32, i64 |
// | i16, u16; u32; u64 | i32; i64; i64, if all values are below 2^63 |
// | floats of 16, 32 and 64 bits, bfloat16 | f16, f32, f64, bf16 |
// | h5py's bool (an enumeration of FALSE and TRUE) | boolean |
//
// Big-endian data are converted. Only data in the file itself are read: external and virtual data
// sets, and links to other files, could name any file of the machine.

#include <string>
#include <vector>

#include "io/left_out.h"
#include "nn/module.h"

namespace rondo::io {

struct Hdf5File {
  nn::StateDict tensors;          // by their paths, such as "images/x", sorted in each group
  std::vector<LeftOut> left_out;  // data sets that are not numbers, or not in this file; links
};

/// The data set `name`. Throws IoError naming the file and the data set: the file is missing,
/// damaged or not HDF5; it has no such data set; the data set cannot be a tensor; or it claims more
/// than 1,100 bytes for each byte of the file. Throws Error if rondo was built without HDF5.
Tensor load_hdf5(const std::string& path, const std::string& name);

/// All data sets at any depth. Throws as above, except that data sets that cannot be tensors are
/// listed in left_out.
Hdf5File load_hdf5(const std::string& path);

}  // namespace rondo::io
