// rondo-weights: lists files of weights, converts them, and compares two.
//
//   rondo-weights ls resnet20.pth
//   rondo-weights convert resnet20.th resnet20.safetensors --strip module.
//   rondo-weights diff resnet20.th resnet20.safetensors
//
// Formats: .safetensors, also in several parts with an index, and torch.save's (io/weights.h). No
// code in a file is run.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "extras/command_line.h"
#include "extras/torch_files/torch_pickle.h"
#include "io/key_rules.h"
#include "io/weights.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace {

using namespace rondo;

/// Names are padded to the longest name, but at most to this width.
constexpr std::size_t widest_column = 80;

struct Flags {
  std::string file, other, entry, other_entry, strip, only;
  std::vector<std::string> rename, ignore;
  double atol = 0;
};

std::string text_of(const Dims& sizes) {
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", "));
}

/// Removes `prefix` from the beginning of all names. Throws if a name does not begin with it.
nn::StateDict stripped(nn::StateDict tensors, const std::string& prefix, const std::string& file) {
  for (nn::NamedTensor& entry : tensors) {
    require<IoError>(entry.name.starts_with(prefix), file, ": --strip ", prefix, ": ", entry.name,
                     " does not begin with it");
    entry.name.erase(0, prefix.size());
  }
  return tensors;
}

/// Reads a file; warns about left-out tensors on standard error, so that scripts do not read the
/// warnings as results.
io::WeightsFile read(const std::string& path, const std::string& entry) {
  io::WeightsFile file = io::read_weights(path, entry);
  for (const auto& [name, why] : file.left_out)
    std::cerr << fmt::format("warning: {}: {} is left out: {}\n", printable(path), printable(name),
                             printable(why));
  return file;
}

int list(const Flags& flags) {
  const io::WeightsFile file = read(flags.file, flags.entry);
  std::vector<std::string> names;
  std::size_t longest = 0;
  std::int64_t elements = 0, bytes = 0;
  for (const nn::NamedTensor& entry : file.tensors) {
    names.push_back(printable(entry.name));
    if (names.back().size() <= widest_column) longest = std::max(longest, names.back().size());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Tensor& tensor = file.tensors[i].tensor;
    std::cout << fmt::format("{:{}}  {:4}  {}\n", names[i], longest, name_of(tensor.dtype()),
                             text_of(tensor.shape()));
    elements += tensor.numel();
    bytes += tensor.nbytes();
  }
  std::cout << fmt::format("{} tensors, {} elements, {} bytes\n", names.size(), elements, bytes);
  if (!file.entry.empty()) std::cout << fmt::format("(entry): {}\n", printable(file.entry));
  for (const auto& [key, value] : file.metadata)
    std::cout << fmt::format("{}: {}\n", printable(key), printable(value));
  return 0;
}

int convert(const Flags& flags) {
  std::error_code none;
  require<IoError>(
      !std::filesystem::equivalent(flags.file, flags.other, none), flags.other,
      ": is the input file; what convert leaves out would be lost, so choose another name");
  io::WeightsFile file = read(flags.file, flags.entry);
  nn::StateDict tensors = std::move(file.tensors);
  std::erase_if(tensors, [&](const nn::NamedTensor& t) { return !t.name.starts_with(flags.only); });
  require<IoError>(!tensors.empty(), flags.file, ": --only ", flags.only,
                   ": no name begins with it");
  tensors = stripped(std::move(tensors), flags.only + flags.strip, flags.file);
  io::KeyRules rules{.ignore = flags.ignore};
  for (const std::string& rule : flags.rename) {
    const std::size_t at = rule.find('=');
    require(at != std::string::npos && at > 0, "--rename ", rule, ": is not FROM=TO");
    rules.rename.emplace_back(rule.substr(0, at), rule.substr(at + 1));
  }
  tensors = io::apply(rules, tensors);
  require<IoError>(!tensors.empty(), flags.file, ": --ignore leaves nothing");
  std::map<std::string, std::string> metadata = std::move(file.metadata);
  // The description of a training run does not belong to its weights.
  std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("rondo."); });
  std::set<std::string> lost(file.others.begin(), file.others.end());
  for (const std::string& name : lost) metadata.erase(name);  // only the name of a class
  if (!flags.other.ends_with(".safetensors")) {
    for (const auto& [name, text] : metadata) lost.insert(name);
    lost.erase("format");
  }
  io::save_weights(flags.other, tensors, metadata);
  std::cout << fmt::format("{}: {} tensors\n", printable(flags.other), tensors.size());
  if (!lost.empty())
    std::cerr << fmt::format(
        "warning: {}: {} {} left out: the file holds only tensors{}\n", printable(flags.other),
        printable(fmt::format("{}", fmt::join(lost, ", "))), lost.size() == 1 ? "is" : "are",
        flags.other.ends_with(".safetensors") ? " and texts" : "");
  return 0;
}

/// How two tensors of equal size and dtype differ; empty if they are equal, or differ by at most
/// atol. Bit-identical elements are equal, including infinities and NaN.
std::string difference(const Tensor& a, const Tensor& b, double atol) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  const std::int64_t size = size_of(x.dtype());
  const auto *p = static_cast<const char*>(x.data_ptr()),
             *q = static_cast<const char*>(y.data_ptr());
  const auto u = x.to_vector<double>(), v = y.to_vector<double>();
  std::int64_t beyond = 0;
  double largest = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (std::memcmp(p + i * size, q + i * size, static_cast<std::size_t>(size)) == 0) continue;
    const double d = std::abs(u[static_cast<std::size_t>(i)] - v[static_cast<std::size_t>(i)]);
    if (atol > 0 && d <= atol) continue;
    ++beyond;
    largest = std::isnan(d) || std::isnan(largest) ? std::nan("") : std::max(largest, d);
  }
  if (beyond == 0) return {};
  return fmt::format("in {} of {} elements, by up to {:.3g}", beyond, x.numel(), largest);
}

int diff(const Flags& flags) {
  const nn::StateDict a = stripped(read(flags.file, flags.entry).tensors, flags.strip, flags.file),
                      b = read(flags.other, flags.other_entry).tensors;
  std::map<std::string, Tensor> others;
  for (const auto& [name, tensor] : b) others[name] = tensor;
  int differences = 0;
  auto say = [&](const std::string& name, const std::string& what) {
    std::cout << fmt::format("{}: {}\n", printable(name), printable(what));
    ++differences;
  };
  for (const auto& [name, tensor] : a) {
    const auto other = others.find(name);
    if (other == others.end()) {
      say(name, "only in " + flags.file);
      continue;
    }
    const Tensor& that = other->second;
    if (that.dtype() != tensor.dtype() || that.shape() != tensor.shape()) {
      say(name, fmt::format("{} {} and {} {}", name_of(tensor.dtype()), text_of(tensor.shape()),
                            name_of(that.dtype()), text_of(that.shape())));
    } else if (const auto text = difference(tensor, that, flags.atol); !text.empty()) {
      say(name, "differs " + text);
    }
    others.erase(other);
  }
  for (const auto& [name, tensor] : b) {
    if (others.contains(name)) say(name, "only in " + flags.other);
  }
  if (differences == 0) std::cout << fmt::format("equal: {} tensors\n", a.size());
  return differences == 0 ? 0 : 1;
}

int program(int argc, char** argv) {
  Flags flags;
  flags::CommandLine app(
      "Lists, converts and compares files of weights: .safetensors, model.safetensors.index.json "
      "with its parts, and "
      "PyTorch's .pth, .pt, .th.");
  auto add_entry = [&](flags::CommandLine& command) {
    command.add("--entry", flags.entry,
                "the dict in a torch.save file: state_dict, model.ema; . is the whole file");
  };
  flags::CommandLine& ls = app.add_command("ls", "names, dtypes and sizes");
  ls.add_required("FILE", flags.file, "");
  add_entry(ls);
  flags::CommandLine& to = app.add_command(
      "convert", "writes the tensors of FILE in the format that the extension of OUT selects");
  to.add_required("FILE", flags.file, "");
  to.add_required("OUT", flags.other, "a name that ends in .safetensors, .pth or .pt");
  to.add("--strip", flags.strip, "remove this prefix from every name");
  to.add("--only", flags.only,
         "only names with this prefix, which is removed: --only model. for a rondo checkpoint");
  to.add_each("--rename", flags.rename,
              "FROM=TO, for each name: a regular expression and its replacement; may be given "
              "several times: --rename '^linear\\.=fc.'");
  to.add_each("--ignore", flags.ignore,
              "leave out names (after renaming) in which this regular expression is found");
  add_entry(to);
  flags::CommandLine& versus =
      app.add_command("diff", "how FILE and OTHER differ; exit status 1 if they do");
  versus.add_required("FILE", flags.file, "");
  versus.add_required("OTHER", flags.other, "");
  versus.add("--strip", flags.strip, "remove this prefix from every name in FILE");
  versus.add("--atol", flags.atol, "elements that differ by at most this are equal",
             flags::not_negative());
  add_entry(versus);
  versus.add("--other-entry", flags.other_entry, "the same for OTHER");
  if (auto status = app.parse(argc, argv)) return *status;
  return ls.given() ? list(flags) : to.given() ? convert(flags) : diff(flags);
}

}  // namespace

int main(int argc, char** argv) { return rondo::flags::run_program(argc, argv, program); }
