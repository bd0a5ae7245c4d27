#include "dist/data_parallel/model_check.h"

#include <algorithm>
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

}  // namespace rondo::dist
