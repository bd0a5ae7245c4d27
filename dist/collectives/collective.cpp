#include "dist/collectives/collective.h"

#include <algorithm>
#include <utility>

#include "dist/collectives/dense.h"
#include "dist/collectives/message_tags.h"
#include "dist/collectives/ranks.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

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

void validate_exchange(Collective& c, const Ranks& ranks) {
  Tensor any;
  for (const Tensors* list : {&c.from, &c.to}) {
    require<CommError>(std::ssize(*list) == ranks.world_size(), "rank ", ranks.rank_in_world(),
                       ": ", c.name, ": ", list->size(), " tensors for ", ranks.world_size(),
                       " ranks");
    for (const Tensor& x : *list) {
      if (!x.defined()) continue;
      check_dense(c.name, x);
      if (any.defined()) require_one_device(c.name, {any, x});
      any = x;
    }
  }
  for (const Tensor& x : c.from) {
    if (x.defined()) check_row_major(c.name, x);
  }
  const auto own = static_cast<std::size_t>(ranks.rank());
  check_apart(c.name, c.from, c.to, own);
  const Tensors given = c.to;
  for (std::size_t i = 0; i < given.size(); ++i) {
    // all_gather sends the same tensor to all ranks.
    if (given[i].defined())
      c.to[i] = i > 0 && given[i].is_same(given[i - 1]) ? c.to[i - 1] : row_major(c.name, given[i]);
  }
  const Contents sent = contents_of(c.to[own]), wanted = contents_of(c.from[own]);
  require<ShapeError>(sent.suits(wanted), "rank ", ranks.rank_in_world(), ": ", c.name,
                      ": its own part is ", text_of(sent), ", but there is room for ",
                      text_of(wanted));
}

void validate_message(const Collective& c, const Ranks& ranks) {
  check_rank(ranks, c.name, c.peer);
  require<CommError>(c.peer != ranks.rank(), "rank ", ranks.rank_in_world(), ": ", c.name,
                     ": the peer is this rank itself");
  require<CommError>(0 <= c.tag && c.tag < tags_of_messages, "rank ", ranks.rank_in_world(), ": ",
                     c.name, ": tag ", c.tag, " is not within 0 … ", tags_of_messages - 1);
}

/// A list that contains x for one rank; its other tensors are undefined.
Tensors only_for(int rank, const Tensor& x, int world_size) {
  Tensors list(static_cast<std::size_t>(world_size));
  list[static_cast<std::size_t>(rank)] = x;
  return list;
}

/// The parts of all ranks: root's, or on the other ranks undefined ones.
Tensors parts_of_root(const Ranks& ranks, const char* what, const Tensors& parts, const Tensor& x,
                      int root) {
  check_rank(ranks, what, root);
  const bool is_root = ranks.rank() == root;
  require<CommError>(std::ssize(parts) == (is_root ? ranks.world_size() : 0), "rank ",
                     ranks.rank_in_world(), ": ", what, ": ", parts.size(), " parts, but ",
                     is_root
                         ? concat("root needs one for each of the ", ranks.world_size(), " ranks")
                         : "only root may have parts");
  check_dense(what, x);
  return is_root ? parts : Tensors(static_cast<std::size_t>(ranks.world_size()));
}

}  // namespace

Collective Collective::all_reduce(const Tensor& x, ReduceOp op, AllReduce algorithm) {
  return {.kind = Kind::all_reduce, .name = "all_reduce", .x = x, .op = op, .algorithm = algorithm};
}

Collective Collective::reduce(const Tensor& x, int root, ReduceOp op) {
  return {.kind = Kind::reduce, .name = "reduce", .x = x, .op = op, .root = root};
}

Collective Collective::broadcast(const Tensor& x, int root) {
  return {.kind = Kind::broadcast, .name = "broadcast", .x = x, .root = root};
}

Collective Collective::all_gather(const Tensor& out, const Tensor& x) {
  return {.kind = Kind::all_gather, .name = "all_gather", .x = x, .out = out};
}

Collective Collective::reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) {
  return {.kind = Kind::reduce_scatter, .name = "reduce_scatter", .x = x, .out = out, .op = op};
}

Collective Collective::all_gather(const Ranks& ranks, const Tensors& parts, const Tensor& x) {
  check_dense("all_gather", x);
  return {.kind = Kind::exchange,
          .name = "all_gather",
          .from = parts,
          .to = Tensors(static_cast<std::size_t>(ranks.world_size()), x)};
}

Collective Collective::gather(const Ranks& ranks, const Tensors& parts, const Tensor& x, int root) {
  Tensors from = parts_of_root(ranks, "gather", parts, x, root);
  return {.kind = Kind::exchange,
          .name = "gather",
          .from = std::move(from),
          .to = only_for(root, x, ranks.world_size()),
          .root = root};
}

Collective Collective::scatter(const Ranks& ranks, const Tensor& x, const Tensors& parts,
                               int root) {
  Tensors to = parts_of_root(ranks, "scatter", parts, x, root);
  return {.kind = Kind::exchange,
          .name = "scatter",
          .from = only_for(root, x, ranks.world_size()),
          .to = std::move(to),
          .root = root};
}

Collective Collective::all_to_all(const Tensors& from, const Tensors& to) {
  return {.kind = Kind::exchange, .name = "all_to_all", .from = from, .to = to};
}

Collective Collective::barrier() { return {.kind = Kind::barrier, .name = "barrier"}; }

Collective Collective::send(const Tensor& x, int peer, int tag) {
  return {.kind = Kind::send, .name = "send", .x = x, .peer = peer, .tag = tag};
}

Collective Collective::recv(const Tensor& x, int peer, int tag) {
  return {.kind = Kind::recv, .name = "recv", .x = x, .peer = peer, .tag = tag};
}

void Collective::validate(const Ranks& ranks) {
  switch (kind) {
    case Kind::all_reduce:
      check_dense(name, x);
      return check_reducible(x.dtype(), op);
    case Kind::reduce:
      check_dense(name, x);
      check_reducible(x.dtype(), op);
      return check_rank(ranks, name, root);
    case Kind::broadcast:
      check_dense(name, x);
      return check_rank(ranks, name, root);
    case Kind::all_gather:
      x = row_major(name, x);
      check_row_major(name, out);
      require<DTypeError>(out.dtype() == x.dtype(), name, ": ", x.dtype(), " into ", out.dtype());
      require_one_device(name, {out, x});
      return require<ShapeError>(out.numel() == x.numel() * ranks.world_size(), name, ": x ",
                                 x.shape(), " of ", ranks.world_size(), " ranks does not fill out ",
                                 out.shape());
    case Kind::reduce_scatter:
      x = row_major(name, x);
      check_row_major(name, out);
      check_reducible(x.dtype(), op);
      require<DTypeError>(out.dtype() == x.dtype(), name, ": ", x.dtype(), " into ", out.dtype());
      require_one_device(name, {out, x});
      return require<ShapeError>(x.numel() == out.numel() * ranks.world_size(), name, ": x ",
                                 x.shape(), " does not split into ", ranks.world_size(),
                                 " times out ", out.shape());
    case Kind::exchange:
      return validate_exchange(*this, ranks);
    case Kind::barrier:
      return;
    case Kind::send:
      x = row_major(name, x);
      return validate_message(*this, ranks);
    case Kind::recv:
      check_row_major(name, x);
      return validate_message(*this, ranks);
  }
}

// An exchange's signature has no shapes, since they differ between ranks.
void Collective::sign(const Ranks& ranks, std::uint64_t number) {
  signature = Signature(name, number);
  if (x.defined()) {
    signature.set_shape(x.shape());
    signature.set_layout(x.suggested_format());
    if (!is_bytes) signature.dtype = static_cast<std::int8_t>(x.dtype());
  }
  if (kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter)
    signature.op = static_cast<std::int8_t>(op);
  if (algorithm != AllReduce::automatic) signature.algorithm = static_cast<std::int8_t>(algorithm);
  const int named = is_message() ? peer : root;
  if (named >= 0) signature.root = ranks.rank_in_world(named);
}

bool Collective::gets_x(int rank) const {
  return kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::recv ||
         (kind == Kind::reduce && rank == root);
}

void Collective::bump_versions(int rank) const {
  if (gets_x(rank)) x.bump_version();
  if (out.defined()) out.bump_version();
  for (const Tensor& y : from) {
    if (y.defined()) y.bump_version();
  }
}

bool Collective::is_local(int world_size) const {
  return world_size == 1 || (x.defined() && x.numel() == 0 && !is_message());
}

void Collective::copy_own_part() const {
  const Tensor &y = kind == Kind::exchange ? from[0] : out,
               &own = kind == Kind::exchange ? to[0] : x;
  if (y.defined() && y.numel() > 0) copy_elements(own, y);
}

Tensors Collective::tensors() const {
  Tensors all;
  const auto add = [&](const Tensor& y) {
    if (y.defined()) all.push_back(y);
  };
  add(out);
  add(x);
  std::ranges::for_each(from, add);
  std::ranges::for_each(to, add);
  return all;
}

const Tensor& Collective::any_tensor() const {
  if (kind != Kind::exchange) return x;
  for (const Tensors* list : {&from, &to}) {
    const auto found = std::ranges::find_if(*list, &Tensor::defined);
    if (found != list->end()) return *found;
  }
  return x;
}

std::string Collective::title() const {
  if (is_message())
    return concat(name, kind == Kind::send ? " to rank " : " from rank ", signature.root,
                  " with tag ", tag);
  return concat(name, ' ', signature.sequence, about.empty() ? "" : " of ", about,
                group.empty() ? "" : " of group ", group);
}

}  // namespace rondo::dist
