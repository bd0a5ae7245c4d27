#include "dist/data_parallel/model_check.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "dist/data_parallel/fnv.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

// One line of text for each parameter and buffer. The lines must be equal on all ranks.
std::vector<std::string> describe(nn::Module& model) {
  std::vector<std::string> lines;
  auto add = [&](const char* kind, const nn::NamedTensor& named) {
    const Tensor& t = named.tensor;
    lines.push_back(concat(kind, " ", named.name, " ", t.dtype(), t.shape(), " with strides ",
                           t.strides(), t.requires_grad() ? "" : ", not trained"));
  };
  for (const auto& p : model.named_parameters()) add("parameter", p);
  for (const auto& b : model.named_buffers()) add("buffer", b);
  return lines;
}

std::string line(const std::string& text, std::size_t i) {
  std::istringstream in(text);
  std::string result;
  for (std::size_t at = 0; at <= i; ++at) {
    if (!std::getline(in, result)) return "";
  }
  return result;
}

}  // namespace

void check_same_model(nn::Module& model, Communicator& comm) {
  std::string mine;
  for (const std::string& l : describe(model)) mine += l + "\n";
  const auto hashes = comm.all_gather_bytes(concat("a model", '\0', fnv(mine)));
  comm.require_agreement(hashes);  // another rank may have called Communicator::agree by mistake
  if (std::ranges::all_of(hashes, [&](auto& h) { return h == hashes[0]; })) return;
  auto texts = comm.all_gather_bytes(mine);
  for (int r = 1; r < comm.world_size(); ++r) {
    if (texts[r] == texts[0]) continue;
    std::size_t i = 0;
    while (line(texts[r], i) == line(texts[0], i)) ++i;
    std::string theirs = line(texts[r], i), ours = line(texts[0], i);
    throw CommError(concat("rank ", comm.rank_in_world(r), " has another model than rank ",
                           comm.rank_in_world(0), ": ", theirs.empty() ? "nothing" : theirs,
                           " where rank ", comm.rank_in_world(0), " has ",
                           ours.empty() ? "nothing" : ours));
  }
}

void broadcast_model(nn::Module& model, Communicator& comm) {
  for (auto& named : model.named_parameters()) comm.broadcast(named.tensor);
  for (auto& named : model.named_buffers()) comm.broadcast(named.tensor);
}

KnownParameters::KnownParameters(nn::Module& model, std::string wrapper, bool with_buffers)
    : model_(model), wrapper_(std::move(wrapper)), with_buffers_(with_buffers) {
  for (const auto& named : now()) at_first_.emplace_back(named, named.tensor.requires_grad());
}

std::vector<nn::NamedTensor> KnownParameters::now() const {
  std::vector<nn::NamedTensor> all = model_.named_parameters();
  if (with_buffers_) std::ranges::move(model_.named_buffers(), std::back_inserter(all));
  return all;
}

void KnownParameters::require_same(bool same, int rank, const std::string& name,
                                   const char* what) const {
  require<CommError>(
      same, "rank ", rank, ": ", name, ' ', what, " since ", wrapper_,
      " was made, and it only knows the tensors of that moment; make a new one after such a "
      "change");
}

void KnownParameters::check_same(int rank) const {
  const auto now = this->now();
  for (std::size_t i = 0; i < std::min(now.size(), at_first_.size()); ++i)
    require_same(now[i].tensor.is_same(at_first_[i].first.tensor), rank, now[i].name,
                 "has been added or replaced");
  if (now.size() > at_first_.size())
    require_same(false, rank, now[at_first_.size()].name, "has been added");
  if (now.size() < at_first_.size())
    require_same(false, rank, at_first_[now.size()].first.name, "has been removed");
}

void KnownParameters::check_trained(int rank) const {
  for (const auto& [named, was_trained] : at_first_)
    require_same(named.tensor.requires_grad() == was_trained, rank, named.name,
                 was_trained ? "was frozen" : "was unfrozen");
}

}  // namespace rondo::dist
