#include "support/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tensor/creation.h"

namespace rondo::test {

std::vector<std::int64_t> counts_for(int n) { return {0, 1, n - 1, n, n + 1, 13, 4099}; }

Tensor filled(DType dtype, std::int64_t count, const std::function<double(std::int64_t)>& f,
              Device device) {
  Tensor t = Tensor::empty({count}, {.dtype = dtype});
  visit_dtype(dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < count; ++i) t.data_ptr<T>()[i] = T(static_cast<float>(f(i)));
  });
  return t.to(device);
}

void expect_elements(const Tensor& t, const std::function<double(std::int64_t)>& want,
                     const char* what) {
  auto got = t.to(Device::cpu()).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double wanted = want(static_cast<std::int64_t>(i));
    if (got[i] == wanted) continue;  // the macro is slow and the tensors are large
    ASSERT_EQ(got[i], wanted) << what << ", " << t.dtype() << ", element " << i << " of "
                              << got.size();
  }
}

void check_all_reduce(dist::Communicator& comm, dist::AllReduce algorithm, Device device) {
  int n = comm.world_size();
  for (DType dtype : {f32, f64, bf16, f16, i64, i32, u8, i8}) {
    for (std::int64_t count : counts_for(n)) {
      auto reduced = [&](std::int64_t i, auto op) {
        double result = value_at(0, i);
        for (int r = 1; r < n; ++r) result = op(result, value_at(r, i));
        return result;
      };
      auto run = [&](dist::ReduceOp op) {
        Tensor x = filled(
            dtype, count, [&](auto i) { return value_at(comm.rank(), i); }, device);
        comm.all_reduce_async(x, op, algorithm).wait();
        return x;
      };
      auto add = [](double a, double b) { return a + b; };
      expect_elements(
          run(dist::ReduceOp::sum), [&](auto i) { return reduced(i, add); }, "sum");
      expect_elements(
          run(dist::ReduceOp::min),
          [&](auto i) { return reduced(i, [](double a, double b) { return std::min(a, b); }); },
          "min");
      expect_elements(
          run(dist::ReduceOp::max),
          [&](auto i) { return reduced(i, [](double a, double b) { return std::max(a, b); }); },
          "max");
      if (is_floating(dtype)) {  // rounded once, to the dtype
        Tensor rounded = filled(dtype, 64, [&](auto s) { return static_cast<double>(s) / n; });
        auto quotient = rounded.to_vector<double>();
        if (dtype == f64) {
          for (int s = 0; s < 64; ++s) quotient[s] = static_cast<double>(s) / n;
        }
        expect_elements(
            run(dist::ReduceOp::avg),
            [&](auto i) { return quotient[static_cast<std::size_t>(reduced(i, add))]; }, "avg");
      }
    }
  }
  Tensor x = filled(
      f32, 33, [&](auto i) { return 1.0 + static_cast<double>((i + comm.rank()) % 2); }, device);
  comm.all_reduce_async(x, dist::ReduceOp::prod, algorithm).wait();
  expect_elements(
      x,
      [&](auto i) {
        double product = 1;
        for (int r = 0; r < n; ++r) product *= 1.0 + static_cast<double>((i + r) % 2);
        return product;
      },
      "prod");
  EXPECT_THROW(comm.all_reduce(zeros({2}, {.dtype = i64, .device = device}), dist::ReduceOp::avg),
               DTypeError);
}

void check_broadcast(dist::Communicator& comm, Device device) {
  for (int root = 0; root < comm.world_size(); ++root) {
    for (std::int64_t count : counts_for(comm.world_size())) {
      Tensor x = filled(
          f32, count, [&](auto i) { return value_at(comm.rank(), i); }, device);
      comm.broadcast(x, root);
      expect_elements(
          x, [&](auto i) { return value_at(root, i); }, "broadcast");
    }
  }
  EXPECT_EQ(comm.broadcast_bytes(comm.rank() == 0 ? "hello" : ""), "hello");
  EXPECT_EQ(comm.broadcast_bytes(""), "");
  EXPECT_THROW(comm.broadcast(zeros({1}, {.device = device}), comm.world_size()), CommError);
}

void check_reduce(dist::Communicator& comm, Device device) {
  const int n = comm.world_size(), me = comm.rank();
  for (int root = 0; root < n; ++root) {
    for (DType dtype : {f32, bf16, i64}) {
      for (std::int64_t count : counts_for(n)) {
        auto mine = [&](auto i) { return value_at(me, i); };
        Tensor x = filled(dtype, count, mine, device);
        comm.reduce(x, root, dist::ReduceOp::max);
        auto largest = [&](auto i) {
          double most = 0;
          for (int r = 0; r < n; ++r) most = std::max(most, value_at(r, i));
          return most;
        };
        if (me == root) {
          expect_elements(x, largest, "reduce");
        } else {
          expect_elements(x, mine, "another rank's tensor after reduce");
        }
      }
    }
    Tensor x = full({1 << 19}, me + 1.0, {.dtype = f64, .device = device});  // 4 MiB: many chunks
    comm.reduce(x, root, dist::ReduceOp::avg);
    if (me == root) {
      EXPECT_EQ(x.to(Device::cpu())[(1 << 19) - 1].item(), (n + 1) / 2.0);
    }
  }
  EXPECT_THROW(comm.reduce(zeros({1}, {.device = device}), n), CommError);
}

void check_bits(dist::Communicator& comm, Device device) {
  const int n = comm.world_size();
  for (DType dtype : {i64, i32, u8, i8}) {
    // Only rank r lacks bit r, and only rank 0 has bit 6.
    const std::int64_t mine = (63 & ~(1 << comm.rank())) | (comm.rank() == 0 ? 64 : 0);
    Tensor all = full({11}, mine, {.dtype = dtype, .device = device}), any = all.clone();
    comm.all_reduce(all, dist::ReduceOp::band);
    comm.all_reduce(any, dist::ReduceOp::bor);
    EXPECT_EQ(all.to(Device::cpu())[10].item<std::int64_t>(), n == 1 ? mine : 63 & ~((1 << n) - 1));
    EXPECT_EQ(any.to(Device::cpu())[10].item<std::int64_t>(), n == 1 ? mine : 127);
  }
  Tensor flag = full({3}, comm.rank() == 0, {.dtype = boolean, .device = device}),
         both = flag.clone();
  comm.all_reduce(flag, dist::ReduceOp::bor);
  comm.all_reduce(both, dist::ReduceOp::band);
  EXPECT_TRUE(flag.to(Device::cpu())[2].item<bool>());
  EXPECT_EQ(both.to(Device::cpu())[2].item<bool>(), n == 1);
  EXPECT_THROW(comm.all_reduce(zeros({2}, {.device = device}), dist::ReduceOp::band), DTypeError);
}

void check_exchanges(dist::Communicator& comm, Device device) {
  const int n = comm.world_size(), me = comm.rank();
  auto size = [](int from, int to) {
    return (from + to) % 3 == 2 ? std::int64_t{0} : 100 * from + to + 1;
  };
  auto part = [&](int from, int to) {
    return filled(
        from % 2 ? f32 : i64, size(from, to), [=](auto i) { return value_at(from + to, i); },
        device);
  };
  auto room = [&](int from, int to) {
    return Tensor::empty({size(from, to)}, {.dtype = from % 2 ? f32 : i64, .device = device});
  };
  auto expect = [&](const Tensor& x, int from, int to, const char* what) {
    EXPECT_EQ(x.numel(), size(from, to));
    expect_elements(
        x, [=](auto i) { return value_at(from + to, i); }, what);
  };
  Tensors from, to;
  for (int r = 0; r < n; ++r) {
    from.push_back(room(r, me));
    to.push_back(part(me, r));
  }
  comm.all_to_all(from, to);
  for (int r = 0; r < n; ++r) expect(from[static_cast<std::size_t>(r)], r, me, "all_to_all");

  for (int root = 0; root < n; ++root) {
    Tensors parts;
    if (me == root) {
      for (int r = 0; r < n; ++r) parts.push_back(room(r, 7));
    }
    comm.gather(parts, part(me, 7), root);
    for (int r = 0; r < std::ssize(parts); ++r)
      expect(parts[static_cast<std::size_t>(r)], r, 7, "gather");
    parts.clear();
    if (me == root) {
      for (int r = 0; r < n; ++r) parts.push_back(part(root, r));
    }
    Tensor x = room(root, me);
    comm.scatter(x, parts, root);
    expect(x, root, me, "scatter");
  }

  Tensors uneven;
  for (int r = 0; r < n; ++r) uneven.push_back(room(r, 1));
  dist::Work work = comm.all_gather_async(uneven, part(me, 1));
  work.wait();
  for (int r = 0; r < n; ++r) expect(uneven[static_cast<std::size_t>(r)], r, 1, "all_gather");

  Tensor large = full({300000}, me, {.device = device});
  Tensors larges;
  for (int r = 0; r < n; ++r) larges.push_back(Tensor::empty({300000}, {.device = device}));
  comm.all_gather(larges, large);
  for (int r = 0; r < n; ++r) {
    expect_elements(
        larges[static_cast<std::size_t>(r)], [=](auto) { return r; }, "a large all_gather");
  }
  EXPECT_THROW(comm.all_to_all({}, to), CommError);
  EXPECT_THROW(comm.gather(Tensors(static_cast<std::size_t>(n + 1), large), large, me), CommError);
  EXPECT_THROW(comm.scatter(large, {}, me), CommError);
  EXPECT_THROW(comm.gather({}, large, n), CommError);
  EXPECT_THROW(comm.all_to_all(Tensors(static_cast<std::size_t>(n)),
                               Tensors(static_cast<std::size_t>(n), large)),
               ShapeError);
}

void check_groups(dist::Communicator& comm, Device device) {
  const int n = comm.world_size(), me = comm.rank();
  std::vector<int> even, odd;
  for (int r = 0; r < n; ++r) (r % 2 ? odd : even).push_back(r);
  std::reverse(odd.begin(), odd.end());
  auto evens = comm.new_group(even);
  EXPECT_EQ(evens != nullptr, me % 2 == 0);
  std::shared_ptr<dist::Communicator> odds;
  if (n > 1) {
    odds = comm.new_group(odd);
    EXPECT_EQ(odds != nullptr, me % 2 == 1);
  }
  const auto& mine = me % 2 ? odds : evens;
  const std::vector<int>& members = me % 2 ? odd : even;
  EXPECT_EQ(mine->world_size(), std::ssize(members));
  EXPECT_EQ(members[static_cast<std::size_t>(mine->rank())], me);
  double sum = 0;
  for (int r : members) sum += r + 1;
  // At the same time as a collective of all ranks.
  Tensor whole = full({5000}, me + 1.0, {.device = device}), part = whole.clone();
  dist::Work second = comm.all_reduce_async(whole);
  dist::Work of_group = mine->all_reduce_async(part);
  of_group.wait();
  second.wait();
  expect_elements(
      whole, [&](auto) { return n * (n + 1) / 2.0; }, "all ranks");
  expect_elements(
      part, [&](auto) { return sum; }, "a group's");
  Tensor first = full({3}, me, {.device = device});
  mine->broadcast(first, 0);
  expect_elements(
      first, [&](auto) { return members[0]; }, "a group's broadcast");
  if (mine->world_size() > 1) {  // the group's last rank alone, and the whole group in reverse
    std::vector<int> reverse;
    for (int r = mine->world_size(); r-- > 0;) reverse.push_back(r);
    auto again = mine->new_group(reverse);
    EXPECT_EQ(again->rank(), mine->world_size() - 1 - mine->rank());
    Tensor x = full({70000}, me + 1.0, {.device = device});
    again->all_reduce(x);
    expect_elements(
        x, [&](auto) { return sum; }, "a group of a group");
    again->barrier();
  }
  // Roots are counted by the group's own ranks. (In a world of two a group has one rank.)
  std::vector<int> all_reversed;
  for (int r = n; r-- > 0;) all_reversed.push_back(r);
  check_exchanges(*comm.new_group(all_reversed), device);
  if (auto group = n > 2 ? comm.new_group({n - 1, n - 2}) : nullptr)
    check_exchanges(*group, device);
  comm.barrier();
  EXPECT_THROW(comm.new_group({}), CommError);
  EXPECT_THROW(comm.new_group({0, n}), CommError);
  EXPECT_THROW(comm.new_group({0, 0}), CommError);
  std::string message;
  try {
    comm.new_group({me == n - 1 ? n - 1 : 0});
  } catch (const CommError& e) {
    message = e.what();
  }
  if (n > 1) {
    EXPECT_EQ(message, "rank " + std::to_string(n - 1) + " has the group {" +
                           std::to_string(n - 1) + "} where rank 0 has the group {0}");
  }
}

/// x is a part of out, or out of x: the rank's own part, another one, or one that overlaps both.
static void check_shared_memory(dist::Communicator& comm, Device device) {
  using Index = std::int64_t;
  const Index n = comm.world_size(), me = comm.rank(), count = 30'001;
  const std::function<Index(Index)> starts[] = {
      [=](Index rank) { return rank * count; }, [=](Index rank) { return (n - 1 - rank) * count; },
      [=](Index rank) { return rank * count + 1; }, [=](Index) { return count / 2; }};
  for (const auto& start : starts) {
    const auto memory = [&] {
      return filled(
          i32, n * count + count, [&](Index i) { return value_at(static_cast<int>(me), i); },
          device);
    };
    const Tensor gathered = memory(), all = gathered.narrow(0, 0, n * count);
    comm.all_gather(all, gathered.narrow(0, start(me), count));
    expect_elements(
        all,
        [&](Index i) {
          const Index rank = i / count;
          return value_at(static_cast<int>(rank), start(rank) + i % count);
        },
        "all_gather within one memory");
    const Tensor scattered = memory(), part = scattered.narrow(0, start(me), count);
    comm.reduce_scatter(part, scattered.narrow(0, 0, n * count));
    expect_elements(
        part,
        [&](Index i) {
          double sum = 0;
          for (int r = 0; r < n; ++r) sum += value_at(r, me * count + i);
          return sum;
        },
        "reduce_scatter within one memory");
  }
}

void check_gather_and_scatter(dist::Communicator& comm, Device device) {
  int n = comm.world_size();
  for (std::int64_t count : counts_for(n)) {
    Tensor x = filled(
        i32, count, [&](auto i) { return value_at(comm.rank(), i); }, device);
    Tensor all = Tensor::empty({n * count}, {.dtype = i32, .device = device});
    comm.all_gather(all, x);
    expect_elements(
        all, [&](auto i) { return value_at(static_cast<int>(i / count), i % count); },
        "all_gather");
    Tensor whole = filled(
        f32, n * count, [&](auto i) { return value_at(comm.rank(), i); }, device);
    Tensor part = Tensor::empty({count}, {.device = device});
    comm.reduce_scatter(part, whole);
    expect_elements(
        part,
        [&](auto i) {
          double sum = 0;
          for (int r = 0; r < n; ++r) sum += value_at(r, comm.rank() * count + i);
          return sum;
        },
        "reduce_scatter");
    expect_elements(
        whole, [&](auto i) { return value_at(comm.rank(), i); }, "input of reduce_scatter");
  }
  check_shared_memory(comm, device);
  auto texts = comm.all_gather_bytes(std::string(static_cast<std::size_t>(comm.rank()), 'x'));
  for (int r = 0; r < n; ++r) EXPECT_EQ(texts[r].size(), static_cast<std::size_t>(r));
  const Tensor three = zeros({3}, {.device = device}),
               more = zeros({3 * n + 1}, {.device = device});
  EXPECT_THROW(comm.all_gather(more, three), ShapeError);
  EXPECT_THROW(comm.reduce_scatter(three, more), ShapeError);
}

void check_messages(dist::Communicator& comm, Device device) {
  int n = comm.world_size(), r = comm.rank();
  std::vector<dist::Work> works;
  std::vector<Tensor> received;
  for (int peer = 0; peer < n; ++peer) {
    if (peer == r) continue;
    Tensor mine = filled(
        f32, 70001, [&](auto i) { return value_at(r, i) + peer; }, device);
    works.push_back(comm.send_async(mine, peer, 7));
    received.push_back(Tensor::empty({70001}, {.device = device}));
    works.push_back(comm.recv_async(received.back(), peer, 7));
  }
  for (auto& work : works) work.wait();
  std::size_t at = 0;
  for (int peer = 0; peer < n; ++peer) {
    if (peer == r) continue;
    expect_elements(
        received[at++], [&](auto i) { return value_at(peer, i) + r; }, "recv");
  }
  if (n > 1 && r < 2) {
    Tensor x = full({3}, r, {.device = device});
    if (r == 0) comm.send(x, 1);
    if (r == 1) comm.recv(x, 0);
    expect_elements(
        x, [](auto) { return 0.0; }, "blocking recv");
  }
  if (n > 1 && r < 2) {  // an empty message is a message too
    Tensor none = zeros({0}, {.device = device});
    if (r == 0) comm.send(none, 1);
    if (r == 1) comm.recv(none, 0);
  }
  comm.barrier();
  EXPECT_THROW(comm.send(zeros({1}, {.device = device}), n), CommError);
  EXPECT_THROW(comm.send(zeros({1}, {.device = device}), r), CommError);
}

void check_order(dist::Communicator& comm) {
  int n = comm.world_size();
  std::vector<Tensor> tensors;
  std::vector<dist::Work> works;
  for (int k = 0; k < 40; ++k) {
    tensors.push_back(full({1 + 37 * k}, comm.rank() + k));
    works.push_back(comm.all_reduce_async(tensors.back()));
  }
  works.back().wait();
  for (int k = 0; k < 40; ++k) {
    EXPECT_TRUE(works[k].test());
    works[k].wait();
    expect_elements(
        tensors[k], [&](auto) { return n * k + n * (n - 1) / 2.0; }, "in order");
    EXPECT_LE(works[k].issued(), works[k].started());
    EXPECT_LE(works[k].started(), works[k].finished());
    if (k > 0) {
      EXPECT_LE(works[k - 1].finished(), works[k].started());
    }
  }
}

void check_agree(dist::Communicator& comm) {
  comm.agree("--batch", "128");
  if (comm.world_size() == 1) return;
  std::string message;
  try {
    comm.agree("--batch", comm.rank() == 1 ? "64" : "128");
  } catch (const CommError& e) {
    message = e.what();
  }
  EXPECT_EQ(message, "rank 1 has --batch 64 where rank 0 has --batch 128");
}

}  // namespace rondo::test
