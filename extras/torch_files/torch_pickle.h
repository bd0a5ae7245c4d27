#pragma once
// Reads and writes PyTorch's own files, those of torch.save (.pt, .pth, .th).
//
// There are two formats. Since PyTorch 1.6 the file is a zip archive: NAME/data.pkl is a pickle
// (extras/torch_files/pickle.h), in which each tensor names its storage and its layout in the
// storage, and NAME/data/K has the bytes of the storage K. The older format is a sequence of
// pickles (a magic number, a version, facts about the machine, the object, the keys of the
// storages), followed by the storages, each a count of elements and the elements. Both are read,
// without running any code. Files are written in the zip format, which Python loads with
// torch.load(path, weights_only=True).
//
// Sources: torch/serialization.py, torch/_utils.py.

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/left_out.h"
#include "nn/module.h"

namespace rondo::io {

struct TorchFile {
  /// In the order of the file, with the strides in the file. Tensors that share a storage in the
  /// file also share it here.
  nn::StateDict tensors;
  /// The key of the outer dict that contains the tensors: "state_dict"; empty: they are directly in
  /// the outer dict.
  std::string entry;
  /// Numbers and texts next to the tensors, or next to `entry`: {"epoch", "90"}. Objects are not
  /// created; the value is the name of their class: {"args", "<argparse.Namespace>"}.
  std::map<std::string, std::string> metadata;
  /// The keys next to the tensors, or next to `entry`, whose values are neither in `tensors` nor
  /// texts or numbers in `metadata`: {"args", "optimizer"}.
  std::vector<std::string> others;
  std::vector<LeftOut> left_out;  // tensors that were not read
};

struct TorchFileOptions {
  /// Selects the dict in a file with several: "state_dict", or a path such as "model.ema"; ".": the
  /// outer dict. If empty: the inner dict with tensors named state_dict, model_state_dict, model,
  /// net or weights (the first that exists); otherwise the only dict with tensors that is not the
  /// state of an optimizer. A tensor in a nested dict, list or tuple gets a name with the keys or
  /// positions joined by dots: "encoder.layers.0".
  std::string entry = {};
};

/// Reads a file. A tensor of a dtype that rondo lacks is converted to a dtype with the same values
/// (io/stored_type.h). A tensor that rondo cannot represent is left out: of a dtype without such a
/// conversion, sparse, quantised, expanded, or marked as lazily negated. No code in a file is run:
/// it may contain objects of any class, but they are not created.
///
/// Throws IoError naming the file and the fault: the file is missing, truncated, damaged or in
/// neither format; a tensor goes beyond its storage; the file has no tensors; several dicts have
/// tensors and `entry` is empty; the object is a whole model; or a count is larger than possible
/// for the size of the file.
/// Uses at most 256 bytes of memory for each byte of a pickle and 1,100 for each byte of a zip
/// file; a pickle in a zip file has at most 1 MiB plus 32 times the bytes of the file.
TorchFile load_torch(const std::string& path, const TorchFileOptions& options = {});
/// Like load_torch, for a file's bytes in memory; error messages call it `name`.
TorchFile parse_torch(std::span<const std::byte> bytes, const std::string& name,
                      const TorchFileOptions& options = {});

/// Writes a state dict as torch.save(collections.OrderedDict(…)) does, atomically
/// (io/atomic_file.h). Accepts tensors of any layout on any device; two identical views of the same
/// memory are written once. Throws IoError if that fails or if two tensors have the same name; the
/// previous file then stays.
void save_torch(const std::string& path, const nn::StateDict& tensors);

namespace detail {
bool register_torch_files();  // with io/weights.h
inline const bool torch_files_are_registered = register_torch_files();
}  // namespace detail

}  // namespace rondo::io
