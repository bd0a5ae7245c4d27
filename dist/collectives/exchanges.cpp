// The collectives in which each rank has different data for each other rank: one tensor to and from
// each.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "dist/collectives/algorithms/exchange.h"
#include "dist/collectives/communicator.h"
#include "dist/collectives/compared.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/device_collectives.h"

namespace rondo::dist {
namespace {

/// A list that contains x for one rank; its other tensors are undefined.
Tensors only_for(int rank, const Tensor& x, int world_size) {
  Tensors list(static_cast<std::size_t>(world_size));
  list[static_cast<std::size_t>(rank)] = x;
  return list;
}

/// Throws ShapeError if a tensor that is written shares memory with another tensor in the lists.
/// The tensor that stays on this rank, `own` in both lists, may be the same one: all_gather sends
/// it to all ranks.
void check_apart(const char* what, const Tensors& written, const Tensors& read, std::size_t own) {
  const bool stays = written[own].defined() && read[own].defined() &&
                     written[own].data_ptr() == read[own].data_ptr();
  const auto require_apart = [&](const Tensor& a, const Tensor& b) {
    require<ShapeError>(!a.defined() || !b.defined() || !overlap(a, b), what,
                        ": a tensor that is written shares memory with another one in the lists; "
                        "use separate tensors");
  };
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) require_apart(written[i], written[k]);
    for (const Tensor& x : read) {
      const bool is_own = stays && i == own && x.defined() && x.data_ptr() == read[own].data_ptr();
      if (!is_own) require_apart(written[i], x);
    }
  }
}

/// Bytes of a defined tensor; 0 for an undefined one.
std::size_t bytes_of_any(const Tensor& x) { return x.defined() ? bytes_of(x) : 0; }

}  // namespace

/// The signature has no shapes, since they differ between ranks.
Signature Communicator::exchange_signature(const char* what, int root) const {
  Signature signature(what, sequence_);
  signature.root = root < 0 ? root : rank_in_world(root);
  return signature;
}

/// from[r] and to[r] are dense or undefined.
Communicator::Job Communicator::exchange_job(const char* what, const Tensors& from,
                                             const Tensors& to, int root) {
  const Signature signature = exchange_signature(what, root);
  const int tag = next_ring(signature).tag;
  const bool to_root = std::string_view(what) == "gather";
  // Whether `sender` may have data for `receiver`.
  const auto meet = [=](int sender, int receiver) {
    return root < 0 || (to_root ? receiver : sender) == root;
  };
  const auto parcels = std::make_shared<std::vector<Parcel>>(from.size());
  return {.begin =
              [=, this](ChunkBuffer&) {
                for (int r = 0; r < world_size_; ++r) {
                  const auto i = static_cast<std::size_t>(r);
                  Parcel& parcel = (*parcels)[i];
                  parcel.send_bytes = bytes_of_any(to[i]);
                  parcel.recv_bytes = bytes_of_any(from[i]);
                  if (parcel.send_bytes > 0) parcel.send = to[i].data_ptr();
                  if (parcel.recv_bytes > 0) parcel.recv = from[i].data_ptr();
                  parcel.tells = meet(rank_, r);
                  parcel.hears = meet(r, rank_);
                  parcel.sent = contents_of(to[i]);
                  parcel.wanted = contents_of(from[i]);
                }
                const Parcel& own = (*parcels)[static_cast<std::size_t>(rank_)];
                if (own.recv_bytes > 0) std::memmove(own.recv, own.send, own.recv_bytes);
                return exchange(*transport_, parcels, tag);
              },
          .keep = parcels,
          .signature = signature};
}

Work Communicator::exchange_async(const char* what, const Tensors& from, const Tensors& parts,
                                  int root) {
  Tensors to = parts;
  Tensor any;
  for (const Tensors* list : {&from, &parts}) {
    require<CommError>(std::ssize(*list) == world_size_, "rank ", rank_in_world(), ": ", what, ": ",
                       list->size(), " tensors for ", world_size_, " ranks");
    for (const Tensor& x : *list) {
      if (!x.defined()) continue;
      check_dense(what, x);
      if (any.defined()) require_one_device(what, {any, x});
      any = x;
    }
  }
  for (const Tensor& x : from) {
    if (x.defined()) check_row_major(what, x);
  }
  check_apart(what, from, to, static_cast<std::size_t>(rank_));
  for (std::size_t i = 0; i < to.size(); ++i) {
    // all_gather sends the same tensor to all ranks.
    if (to[i].defined())
      to[i] = i > 0 && to[i].is_same(parts[i - 1]) ? to[i - 1] : row_major(what, to[i]);
  }
  const Tensor &own_from = from[static_cast<std::size_t>(rank_)],
               &own_to = to[static_cast<std::size_t>(rank_)];
  const Contents sent = contents_of(own_to), wanted = contents_of(own_from);
  require<ShapeError>(sent.suits(wanted), "rank ", rank_in_world(), ": ", what,
                      ": its own part is ", text_of(sent), ", but there is room for ",
                      text_of(wanted));
  for (const Tensor& x : from) {
    if (x.defined()) x.bump_version();
  }
  const Signature signature = exchange_signature(what, root);
  const bool is_gpus = any.defined() && is_on_gpu(what, any);
  if (world_size_ > 1 && gpu_ != nullptr && !gpu_->is_by_way_of_host())
    return compared_exchange(signature, from, to, root, any);
  if (!is_gpus) {
    std::string name = title(what);
    Job job = exchange_job(what, from, to, root);
    job.name = std::move(name);
    return start(std::move(job));
  }
  DeviceCall call = next_call(signature);
  if (world_size_ > 1) return gpu_->exchange(std::move(call), from, to, root);
  if (own_from.defined() && own_from.numel() > 0) copy_elements(own_to, own_from);
  return {};
}

void Communicator::check_root_has_parts(const char* what, const Tensors& parts, int root) const {
  check_peer(what, root);
  const std::int64_t wanted = rank_ == root ? world_size_ : 0;
  require<CommError>(std::ssize(parts) == wanted, "rank ", rank_in_world(), ": ", what, ": ",
                     parts.size(), " parts, but ",
                     rank_ == root
                         ? concat("root needs one for each of the ", world_size_, " ranks")
                         : "only root may have parts");
}

Work Communicator::all_gather_async(const Tensors& parts, const Tensor& x) {
  check_dense("all_gather", x);
  return exchange_async("all_gather", parts, Tensors(static_cast<std::size_t>(world_size_), x));
}
void Communicator::all_gather(const Tensors& parts, const Tensor& x) {
  all_gather_async(parts, x).wait();
}

Work Communicator::gather_async(const Tensors& parts, const Tensor& x, int root) {
  check_root_has_parts("gather", parts, root);
  check_dense("gather", x);
  const Tensors none(static_cast<std::size_t>(world_size_));
  return exchange_async("gather", rank_ == root ? parts : none, only_for(root, x, world_size_),
                        root);
}
void Communicator::gather(const Tensors& parts, const Tensor& x, int root) {
  gather_async(parts, x, root).wait();
}

Work Communicator::scatter_async(const Tensor& x, const Tensors& parts, int root) {
  check_root_has_parts("scatter", parts, root);
  check_dense("scatter", x);
  const Tensors none(static_cast<std::size_t>(world_size_));
  return exchange_async("scatter", only_for(root, x, world_size_), rank_ == root ? parts : none,
                        root);
}
void Communicator::scatter(const Tensor& x, const Tensors& parts, int root) {
  scatter_async(x, parts, root).wait();
}

Work Communicator::all_to_all_async(const Tensors& from, const Tensors& to) {
  return exchange_async("all_to_all", from, to);
}
void Communicator::all_to_all(const Tensors& from, const Tensors& to) {
  all_to_all_async(from, to).wait();
}

}  // namespace rondo::dist
