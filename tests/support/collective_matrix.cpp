#include "support/collective_matrix.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

#include "support/collectives.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

constexpr std::array all_dtypes = {f32, f64, bf16, f16, i64, i32, u8, i8, boolean};
constexpr std::array all_ops = {dist::ReduceOp::sum, dist::ReduceOp::avg,  dist::ReduceOp::min,
                                dist::ReduceOp::max, dist::ReduceOp::prod, dist::ReduceOp::band,
                                dist::ReduceOp::bor};

double small_value(DType dtype, int rank, std::int64_t i) {
  return static_cast<double>((i + rank) % 2 + (dtype == boolean ? 0 : 1));
}

/// Element i of the tensor from rank `from` to rank `to`.
double moved_value(DType dtype, int from, int to, std::int64_t i) {
  const std::int64_t value = (5 * i + 3 * from + 2 * to) % 7;
  return static_cast<double>(dtype == boolean ? value % 2 : value);
}

/// The result of `op` on small_value(dtype, r, i) over n ranks.
double small_result(DType dtype, dist::ReduceOp op, int n, std::int64_t i) {
  double sum = 0, product = 1, least = 2, most = 0;
  std::int64_t all = 3, any = 0;
  for (int r = 0; r < n; ++r) {
    const double v = small_value(dtype, r, i);
    sum += v;
    product *= v;
    least = std::min(least, v);
    most = std::max(most, v);
    all &= static_cast<std::int64_t>(v);
    any |= static_cast<std::int64_t>(v);
  }
  switch (op) {
    case dist::ReduceOp::sum:
      return dtype == boolean ? std::min(sum, 1.0) : sum;
    case dist::ReduceOp::avg: {
      const Tensor exact = full({1}, sum / n, {.dtype = f64});
      return exact.to(dtype).item<double>();
    }
    case dist::ReduceOp::min:
      return least;
    case dist::ReduceOp::max:
      return most;
    case dist::ReduceOp::prod:
      return product;
    case dist::ReduceOp::band:
      return static_cast<double>(all);
    default:
      return static_cast<double>(any);
  }
}

/// The collectives of one communicator, each by its blocking call and its asynchronous one.
class CollectiveMatrix {
 public:
  CollectiveMatrix(dist::Communicator& comm, Device device, std::int64_t count)
      : comm_(comm), device_(device), count_(count), n_(comm.world_size()), me_(comm.rank()) {}

  void run() {
    for (DType dtype : all_dtypes) {
      moves(dtype);
      for (dist::ReduceOp op : all_ops) reduces(dtype, op);
    }
  }

 private:
  Tensor mine(DType dtype, std::int64_t parts = 1) const {
    return filled(
        dtype, parts * count_, [&](auto i) { return small_value(dtype, me_, i); }, device_);
  }
  void expect(const Tensor& x, const std::function<double(std::int64_t)>& want, const char* what,
              bool blocking) const {
    expect_elements(x, want, (std::string(what) + (blocking ? "" : "_async")).c_str());
  }

  void reduces(DType dtype, dist::ReduceOp op) {
    const bool is_float = is_floating(dtype);
    const bool exists = op == dist::ReduceOp::avg                                 ? is_float
                        : op == dist::ReduceOp::band || op == dist::ReduceOp::bor ? !is_float
                                                                                  : true;
    const double results[] = {small_result(dtype, op, n_, 0), small_result(dtype, op, n_, 1)};
    const auto result = [&](auto i) { return results[i % 2]; };  // as small_value alternates
    for (const bool blocking : {true, false}) {
      const Tensor all = mine(dtype), whole = mine(dtype, n_);
      const Tensor part = full({count_}, 9, {.dtype = dtype, .device = device_});
      if (!exists) {
        EXPECT_THROW(comm_.all_reduce_async(all, op), DTypeError);
        EXPECT_THROW(comm_.reduce_async(all, 0, op), DTypeError);
        EXPECT_THROW(comm_.reduce_scatter_async(part, whole, op), DTypeError);
        return;
      }
      blocking ? comm_.all_reduce(all, op) : comm_.all_reduce_async(all, op).wait();
      expect(all, result, "all_reduce", blocking);

      const int root = n_ - 1;
      const Tensor to_root = mine(dtype);
      blocking ? comm_.reduce(to_root, root, op) : comm_.reduce_async(to_root, root, op).wait();
      if (me_ == root) expect(to_root, result, "reduce", blocking);

      blocking ? comm_.reduce_scatter(part, whole, op)
               : comm_.reduce_scatter_async(part, whole, op).wait();
      expect(
          part, [&](auto i) { return result(me_ * count_ + i); }, "reduce_scatter", blocking);
    }
  }

  void moves(DType dtype) {
    const int root = n_ / 2;
    const auto of = [=](int from, int to) {
      return [=](auto i) { return moved_value(dtype, from, to, i); };
    };
    const auto part = [&](int to) { return filled(dtype, count_, of(me_, to), device_); };
    const auto room = [&](std::int64_t parts = 1) {
      return full({parts * count_}, 9, {.dtype = dtype, .device = device_});
    };
    const auto for_each_rank = [&](const auto& make) {
      Tensors list;
      for (int r = 0; r < n_; ++r) list.push_back(make(r));
      return list;
    };
    const auto rooms = [&] { return for_each_rank([&](int) { return room(); }); };
    for (const bool blocking : {true, false}) {
      // list[r] is the tensor from rank r to rank `to`.
      const auto expect_from_all = [&](const Tensors& list, int to, const char* what) {
        for (int r = 0; r < std::ssize(list); ++r)
          expect(list[static_cast<std::size_t>(r)], of(r, to), what, blocking);
      };

      const Tensor x = part(0);
      blocking ? comm_.broadcast(x, root) : comm_.broadcast_async(x, root).wait();
      expect(x, of(root, 0), "broadcast", blocking);

      const Tensor in_a_row = room(n_);
      blocking ? comm_.all_gather(in_a_row, part(0))
               : comm_.all_gather_async(in_a_row, part(0)).wait();
      expect(
          in_a_row,
          [&](auto i) { return moved_value(dtype, static_cast<int>(i / count_), 0, i % count_); },
          "all_gather", blocking);

      const Tensors list = rooms();
      blocking ? comm_.all_gather(list, part(0)) : comm_.all_gather_async(list, part(0)).wait();
      expect_from_all(list, 0, "all_gather of a list");

      const Tensors gathered = me_ == root ? rooms() : Tensors();
      blocking ? comm_.gather(gathered, part(root), root)
               : comm_.gather_async(gathered, part(root), root).wait();
      expect_from_all(gathered, root, "gather");

      const Tensors parts = me_ == root ? for_each_rank(part) : Tensors();
      const Tensor scattered = room();
      blocking ? comm_.scatter(scattered, parts, root)
               : comm_.scatter_async(scattered, parts, root).wait();
      expect(scattered, of(root, me_), "scatter", blocking);

      const Tensors from = rooms(), to = for_each_rank(part);
      blocking ? comm_.all_to_all(from, to) : comm_.all_to_all_async(from, to).wait();
      expect_from_all(from, me_, "all_to_all");
    }
  }

  dist::Communicator& comm_;
  Device device_;
  std::int64_t count_;
  int n_, me_;
};

}  // namespace

void check_every_collective(dist::Communicator& comm, Device device) {
  for (const std::int64_t count : {1, 1031}) CollectiveMatrix(comm, device, count).run();
  if (comm.world_size() < 3) return;
  std::vector<int> others;
  for (int r = comm.world_size(); r-- > 1;) others.push_back(r);
  if (const auto group = comm.new_group(others)) CollectiveMatrix(*group, device, 67).run();
  comm.barrier();
}

}  // namespace rondo::test
