#include "extras/hub/pretrained.h"

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "io/weights.h"
#include "nn/linear.h"
#include "tensor/error.h"

namespace rondo::hub {
namespace {

namespace fs = std::filesystem;

/// The authors publish the first eight digits of each SHA-256, in the file name. The other digits
/// and the sizes were measured by other projects. Weights that no project measured are left out.
std::vector<PretrainedWeights> built_in() {
  std::vector<PretrainedWeights> all;
  auto add = [&](const std::string& name, const std::string& folder, const std::string& file,
                 const std::string& sha256, std::int64_t bytes = 0) {
    all.push_back({.name = name,
                   .file = {.name = file, .url = folder + file, .checksum = sha256, .bytes = bytes},
                   .entry = {}});
  };
  const std::string torchvision = "https://download.pytorch.org/models/";
  add("resnet18", torchvision, "resnet18-f37072fd.pth",
      "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec", 46830571);
  add("resnet34", torchvision, "resnet34-b627a593.pth",
      "b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f", 87319819);
  add("resnet50", torchvision, "resnet50-0676ba61.pth",
      "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a", 102530333);
  add("resnet101", torchvision, "resnet101-63fe2227.pth",
      "63fe2227b86e8f1f2063f43a75c84d195911b6a0eace650907dd3dc62dd49a0a");
  add("resnet152", torchvision, "resnet152-394f9c45.pth",
      "394f9c45966e3651a89bbb78a48410a6755854ce4a5ab64927cf1c7247f85e58");
  const std::string chenyaofo =
      "https://github.com/chenyaofo/pytorch-cifar-models/releases/download/resnet/";
  add("cifar10_resnet20", chenyaofo, "cifar10_resnet20-4118986f.pt",
      "4118986f0df73003d572b0e397f0ac7b3f60af1f31aff3d2da164536e36f6ec8", 1139055);
  add("cifar10_resnet32", chenyaofo, "cifar10_resnet32-ef93fc4d.pt",
      "ef93fc4d3ea83c08d75bfd6fc31af56047cfa241608c9ba3a1f6dc11cca20dd9", 1944567);
  add("cifar100_resnet20", chenyaofo, "cifar100_resnet20-23dac2f1.pt",
      "23dac2f1bc53fd65b9fd0bd30a46f91ab39fa16505430cc7999662237598209d");
  return all;
}

std::mutex mutex;
std::vector<PretrainedWeights>& table() {
  static auto* all = new std::vector<PretrainedWeights>(built_in());
  return *all;
}

std::string names_of(const std::vector<PretrainedWeights>& all) {
  std::string names;
  for (const PretrainedWeights& each : all) names += (names.empty() ? "" : ", ") + each.name;
  return names;
}

const Tensor* find(const nn::StateDict& state, std::string_view name) {
  const auto found = std::ranges::find(state, name, &nn::NamedTensor::name);
  return found == state.end() ? nullptr : &found->tensor;
}

/// The tensor with this name in `state`; its shape determines how the network is built.
const Tensor& needed(const nn::StateDict& state, const char* name, std::int64_t dims,
                     const std::string& from) {
  const Tensor* found = find(state, name);
  require<IoError>(found != nullptr && found->dim() == dims, from, ": has no ", name, " of ", dims,
                   " dimensions");
  return *found;
}

/// Loads all tensors into `net`. Then reinitialises the last layer if the number of classes
/// differs.
template <class Net>
void fill(Net& net, const nn::StateDict& state, const PretrainedOptions& o) {
  try {
    net.load_state_dict(state);
  } catch (const Error& error) {
    throw Error(concat(o.pretrained, ": ", error.what()));
  }
  const Tensor& last = needed(state, "fc.weight", 2, o.pretrained);
  const std::int64_t classes = last.size(0), features = last.size(1);
  if (o.num_classes != 0 && o.num_classes != classes) net.fc = nn::Linear(features, o.num_classes);
}

nn::ResNet resnet(std::int64_t depth, const PretrainedOptions& o) {
  if (o.pretrained.empty())
    return nn::ResNet({.depth = depth, .num_classes = o.num_classes != 0 ? o.num_classes : 1000});
  const nn::StateDict state = io::apply(o.keys, load_pretrained(o.pretrained, o.download));
  const Tensor& first = needed(state, "conv1.weight", 4, o.pretrained);
  nn::ResNet net({.depth = depth,
                  .num_classes = needed(state, "fc.weight", 2, o.pretrained).size(0),
                  .in_channels = first.size(1),
                  .stem = first.size(2) == 3 ? nn::Stem::cifar : nn::Stem::imagenet});
  fill(net, state, o);
  return net;
}

}  // namespace

std::vector<PretrainedWeights> known_weights() {
  const std::lock_guard lock(mutex);
  return table();
}

void add_weights(PretrainedWeights weights) {
  const std::lock_guard lock(mutex);
  std::erase_if(table(), [&](const PretrainedWeights& w) { return w.name == weights.name; });
  table().push_back(std::move(weights));
}

data::RemoteDataset remote_weights(const std::string& name) {
  const std::vector<PretrainedWeights> all = known_weights();
  const auto known = std::ranges::find(all, name, &PretrainedWeights::name);
  require(known != all.end(), "unknown weights '", name, "'; use one of ", names_of(all));
  const auto is_it = [&](const PretrainedWeights& weights) {
    return weights.name == name && weights.file.checksum == known->file.checksum;
  };
  // Each checksum has its own folder, so that another file of the same name is downloaded again.
  return {.name = name,
          .folder = concat("weights/", name, "-", known->file.checksum.substr(0, 8)),
          .archive = false,
          .files = {known->file},
          .in_rondo_data = std::ranges::any_of(built_in(), is_it)};
}

nn::StateDict load_pretrained(const std::string& name_or_file,
                              const data::DownloadOptions& options) {
  const std::vector<PretrainedWeights> all = known_weights();
  const auto known = std::ranges::find(all, name_or_file, &PretrainedWeights::name);
  if (known == all.end()) {
    std::error_code ignored;
    require<IoError>(fs::exists(name_or_file, ignored), "weights ", name_or_file,
                     ": neither a file nor a known name; use a file or one of ", names_of(all));
    return io::load_weights(name_or_file);
  }
  const data::RemoteDataset remote = remote_weights(name_or_file);
  const fs::path cache = data::cache_dir(), folder = cache / remote.folder;
  const std::string instead =
      concat(", or give a file's path in place of the name ", known->name,
             " (PretrainedOptions::pretrained; --weights FILE in the examples)");
  std::error_code ignored;
  require<IoError>(options.allow_download || fs::exists(folder, ignored), folder.string(),
                   ": is not here, and downloads are not allowed; ",
                   data::without_network(remote, cache), instead);
  try {
    data::obtain(remote, cache, options);
  } catch (const IoError& error) {
    throw IoError(concat(error.what(), instead));
  }
  return io::load_weights((folder / known->file.name).string(), known->entry);
}

nn::ResNet resnet18(const PretrainedOptions& options) { return resnet(18, options); }
nn::ResNet resnet34(const PretrainedOptions& options) { return resnet(34, options); }
nn::ResNet resnet50(const PretrainedOptions& options) { return resnet(50, options); }
nn::ResNet resnet101(const PretrainedOptions& options) { return resnet(101, options); }
nn::ResNet resnet152(const PretrainedOptions& options) { return resnet(152, options); }

const io::KeyRules& cifar_key_rules() {
  static const io::KeyRules rules{
      .rename = {{"^linear\\.", "fc."}, {"\\.shortcut\\.", ".downsample."}}};
  return rules;
}

nn::CifarResNet cifar_resnet(std::int64_t depth, const PretrainedOptions& o) {
  if (o.pretrained.empty())
    return nn::CifarResNet(
        {.depth = depth, .num_classes = o.num_classes != 0 ? o.num_classes : 10});
  const nn::StateDict state =
      io::apply(cifar_key_rules(), io::apply(o.keys, load_pretrained(o.pretrained, o.download)));
  const bool has_downsample = std::ranges::any_of(state, [](const nn::NamedTensor& entry) {
    return entry.name.find(".downsample.") != std::string::npos;
  });
  nn::CifarResNet net({.depth = depth,
                       .num_classes = needed(state, "fc.weight", 2, o.pretrained).size(0),
                       .in_channels = needed(state, "conv1.weight", 4, o.pretrained).size(1),
                       .shortcut = has_downsample ? nn::Shortcut::b : nn::Shortcut::a});
  fill(net, state, o);
  return net;
}

}  // namespace rondo::hub
