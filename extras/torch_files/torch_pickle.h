#pragma once
// Files of PyTorch's own: what torch.save writes (.pt, .pth, .th), read and written.
//
// Two forms are in the world. Since PyTorch 1.6 the file is a zip archive: NAME/data.pkl is a
// pickle (extras/torch_files/pickle.h) in which each tensor says which storage it lies in and how,
// and NAME/data/K are the storages' bytes. Before, it was a row of pickles (a magic number, a
// version, facts about the machine, the object, the storages' keys) and then the storages, each a
// count of elements and the elements. Both are read, without running anything; written is the zip
// form, which Python loads with torch.load(path, weights_only=True).
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
  /// In the order of the file, with the strides that they have there. Those that shared a storage
  /// share it here.
  nn::StateDict tensors;
  /// The key of the outer dict under which the tensors were: "state_dict"; empty: they were the
  /// outer one's own.
  std::string entry;
  /// Numbers and texts next to them, or next to `entry`: {"epoch", "90"}. Objects are not made, and
  /// have the name of their class here: {"args", "<argparse.Namespace>"}.
  std::map<std::string, std::string> metadata;
  std::vector<LeftOut> left_out;  // tensors that were not read
};

struct TorchFileOptions {
  /// Which dict of a file that has several: "state_dict", or a path as "model.ema"; ".": the outer
  /// one. Empty: the inner one with tensors that is called state_dict, model_state_dict, model, net
  /// or weights, the first of these that there is; else the only one with tensors that is not the
  /// state of an optimizer. The name of a tensor in a dict, list or tuple of that dict has the keys
  /// or positions with dots between them: "encoder.layers.0".
  std::string entry = {};
};

/// Reads a file. A tensor of a dtype that rondo lacks gets one that has the same values
/// (io/stored_type.h). A tensor that rondo cannot have is left out: of a dtype without such a form,
/// sparse, quantised, expanded, or marked as lazily negated. Nothing in a file is run: it may have
/// objects of any class, which are not made.
///
/// Throws IoError naming the file and what is wrong with it: missing, cut short, damaged, of
/// neither form; a tensor that goes beyond its storage; no tensors, or several dicts of them and no
/// telling which is meant; a whole model; more of anything than a file of its size has. Takes at
/// most 256 bytes of memory for each of a pickle's and 1,100 for each of a zip file's, whose pickle
/// has at most 1 MiB and 32 times the file's bytes.
TorchFile load_torch(const std::string& path, const TorchFileOptions& options = {});
/// The same for a file's bytes in memory; `name` is what errors call it.
TorchFile parse_torch(std::span<const std::byte> bytes, const std::string& name,
                      const TorchFileOptions& options = {});

/// Writes a state dict as torch.save(collections.OrderedDict(…)) does, atomically
/// (io/atomic_file.h). Tensors of any layout, from any device; two that are the same view of the
/// same memory are written once. Throws IoError when it fails or two tensors have one name; the
/// file that was there before is then still there.
void save_torch(const std::string& path, const nn::StateDict& tensors);

namespace detail {
bool register_torch_files();  // with io/weights.h
inline const bool torch_files_are_registered = register_torch_files();
}  // namespace detail

}  // namespace rondo::io
