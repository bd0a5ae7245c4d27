// Every all-reduce over messages except the ring, and the trees, against exactly known sums.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "dist/collectives/algorithms/binomial_tree.h"
#include "dist/collectives/algorithms/direct.h"
#include "dist/collectives/algorithms/halving_doubling.h"
#include "dist/collectives/algorithms/hierarchical.h"
#include "dist/collectives/algorithms/pairwise.h"
#include "dist/collectives/algorithms/recursive_doubling.h"
#include "dist/transports/thread/thread_transport.h"
#include "support/operations.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using test::drive;
using test::expected;
using test::value;

using AllReduceFunction = std::function<std::unique_ptr<Operation>(Transport&, ChunkBuffer&, void*,
                                                                   std::int64_t, DType, ReduceOp)>;

struct Algorithm {
  const char* name;
  AllReduceFunction make;
};

/// Ranks 0, 2, 4, … are on one node and 1, 3, … on the other: equally many if the number of ranks
/// is even.
std::vector<int> two_nodes(int ranks) {
  std::vector<int> nodes;
  for (int r = 0; r < ranks; ++r) nodes.push_back(r % 2);
  return nodes;
}

/// Messages of 64 bytes, so that there are many.
constexpr RingOptions small_chunks{.tag = 7, .chunk_bytes = 64, .chunks_per_segment = 3};

const Algorithm algorithms[] = {
    {"doubling",
     [](Transport& t, ChunkBuffer& s, void* data, std::int64_t n, DType dtype, ReduceOp op) {
       return recursive_doubling_all_reduce(t, s, data, n, dtype, op, 7);
     }},
    {"halving",
     [](Transport& t, ChunkBuffer& s, void* data, std::int64_t n, DType dtype, ReduceOp op) {
       return halving_doubling_all_reduce(t, s, data, n, dtype, op, 7);
     }},
    {"tree", [](Transport& t, ChunkBuffer& s, void* data, std::int64_t n, DType dtype,
                ReduceOp op) { return tree_all_reduce(t, s, data, n, dtype, op, 7); }},
    {"direct", [](Transport& t, ChunkBuffer& s, void* data, std::int64_t n, DType dtype,
                  ReduceOp op) { return direct_all_reduce(t, s, data, n, dtype, op, 7); }},
    {"pairwise",
     [](Transport& t, ChunkBuffer& s, void* data, std::int64_t n, DType dtype, ReduceOp op) {
       return pairwise_all_reduce(t, s, data, n, dtype, op, {.tag = 7, .chunk_bytes = 64});
     }},
    {"hierarchical",
     [](Transport& t, ChunkBuffer& s, void* data, std::int64_t n, DType dtype, ReduceOp op) {
       return hierarchical_all_reduce(t, s, data, n, dtype, op, two_nodes(t.world_size()),
                                      small_chunks);
     }},
    {"one_node",
     [](Transport& t, ChunkBuffer& s, void* data, std::int64_t n, DType dtype, ReduceOp op) {
       return hierarchical_all_reduce(t, s, data, n, dtype, op,
                                      std::vector<int>(static_cast<std::size_t>(t.world_size())),
                                      small_chunks);
     }},
    {"three_nodes",  // rank 0 alone, the other ranks on two nodes
     [](Transport& t, ChunkBuffer& s, void* data, std::int64_t n, DType dtype, ReduceOp op) {
       std::vector<int> nodes;
       for (int r = 0; r < t.world_size(); ++r) nodes.push_back(r == 0 ? 5 : r % 2);
       return hierarchical_all_reduce(t, s, data, n, dtype, op, nodes, small_chunks);
     }},
};

class AllReduceAlgorithm : public ::testing::TestWithParam<std::tuple<int, Algorithm>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  const AllReduceFunction& make() const { return std::get<1>(GetParam()).make; }

  template <class T>
  void check(std::int64_t count, ReduceOp op) const {
    run_on_threads(ranks(), [&](std::shared_ptr<Transport> transport) {
      std::vector<T> data;
      for (std::int64_t i = 0; i < count; ++i) data.push_back(value<T>(transport->rank(), i, op));
      ChunkBuffer scratch;
      drive(*make()(*transport, scratch, data.data(), count, dtype_of<T>, op));
      for (std::int64_t i = 0; i < count; ++i) {
        // The average is rounded once, to T; everything else is exact.
        double want = static_cast<double>(T(static_cast<float>(expected<T>(ranks(), i, op))));
        if constexpr (std::is_same_v<T, double>) want = expected<T>(ranks(), i, op);
        ASSERT_EQ(static_cast<double>(data[static_cast<std::size_t>(i)]), want)
            << "element " << i << " of " << count << ", rank " << transport->rank() << ", " << op;
      }
    });
  }
};

TEST_P(AllReduceAlgorithm, AllDtypesAndOps) {
  for (std::int64_t count : {0, 1, 2, 7, 8, 97, 1009}) {
    for (ReduceOp op :
         {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max, ReduceOp::prod}) {
      check<float>(count, op);
      check<BFloat16>(count, op);
      if (op == ReduceOp::sum || op == ReduceOp::avg) {
        check<double>(count, op);
        check<Half>(count, op);
      }
      if (op != ReduceOp::avg) check<std::int64_t>(count, op);
      if (op == ReduceOp::sum) check<std::int8_t>(count, op);
    }
  }
}

// Cases where the order of additions matters, and the order of -0 and +0 in a minimum.
TEST_P(AllReduceAlgorithm, EqualBitsOnAllRanks) {
  constexpr std::int64_t count = 1000;
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max}) {
    std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks()));
    run_on_threads(ranks(), [&](std::shared_ptr<Transport> transport) {
      const int r = transport->rank();
      std::vector<float> data;
      for (std::int64_t i = 0; i < count; ++i)
        data.push_back(i % 10 == 0 ? std::copysign(0.0f, r % 2 ? 1.0f : -1.0f)
                                   : 1.0f / static_cast<float>(i + 3 * r + 1));
      ChunkBuffer scratch;
      drive(*make()(*transport, scratch, data.data(), count, f32, op));
      results[static_cast<std::size_t>(r)] = data;
    });
    for (const auto& result : results)
      EXPECT_EQ(std::memcmp(result.data(), results[0].data(), count * sizeof(float)), 0) << op;
  }
}

// Both add 16-bit numbers in the order of the ranks and round once. `direct` sends all numbers to
// every rank; `pairwise` sends parts of them, in blocks or whole.
TEST(AllAtOnce, PairwiseHasTheBitsOfDirect) {
  for (const int n : {2, 3, 5, 8}) {
    for (const std::int64_t count : {1, 4, 97, 1009}) {
      run_on_threads(n, [&](std::shared_ptr<Transport> transport) {
        std::vector<BFloat16> direct;
        for (std::int64_t i = 0; i < count; ++i)
          direct.push_back(BFloat16(std::sin(static_cast<float>(i * n + transport->rank()))));
        const std::vector<BFloat16> mine = direct;
        ChunkBuffer scratch;
        drive(*direct_all_reduce(*transport, scratch, direct.data(), count, bf16, ReduceOp::avg));
        for (const std::size_t chunk : {std::size_t{2}, std::size_t{64}, std::size_t{1} << 20}) {
          std::vector<BFloat16> pairwise = mine;
          drive(*pairwise_all_reduce(*transport, scratch, pairwise.data(), count, bf16,
                                     ReduceOp::avg, {.chunk_bytes = chunk}));
          EXPECT_EQ(std::memcmp(pairwise.data(), direct.data(), direct.size() * 2), 0);
        }
      });
    }
  }
}

TEST(AllAtOnce, PairwiseReduceScatterGivesEachItsPartAndTakesNothing) {
  for (const int n : {1, 2, 3, 5, 8}) {
    for (const std::int64_t part : {0, 1, 7, 200}) {
      run_on_threads(n, [&](std::shared_ptr<Transport> transport) {
        std::vector<float> data;
        for (std::int64_t i = 0; i < n * part; ++i)
          data.push_back(value<float>(transport->rank(), i, ReduceOp::sum));
        const std::vector<float> before = data;
        std::vector<float> out(static_cast<std::size_t>(part), -1);
        ChunkBuffer scratch;
        drive(*pairwise_reduce_scatter(*transport, scratch, data.data(), out.data(), part, f32,
                                       ReduceOp::sum, {.tag = 7, .chunk_bytes = 64}));
        for (std::int64_t i = 0; i < part; ++i)
          ASSERT_EQ(out[static_cast<std::size_t>(i)],
                    expected<float>(n, transport->rank() * part + i, ReduceOp::sum));
        EXPECT_EQ(data, before);
      });
    }
  }
}

TEST_P(AllReduceAlgorithm, RefusesTheAverageOfIntegers) {
  run_on_threads(ranks(), [&](std::shared_ptr<Transport> transport) {
    std::int64_t x = 1;
    ChunkBuffer scratch;
    EXPECT_THROW(make()(*transport, scratch, &x, 1, i64, ReduceOp::avg), DTypeError);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduceAlgorithm,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 6, 7, 8),
                                            ::testing::ValuesIn(algorithms)),
                         [](const auto& info) {
                           return std::get<1>(info.param).name +
                                  std::to_string(std::get<0>(info.param));
                         });

// bf16, direct: 256 + 1 + 1 + 1 = 259 is added in f32 and rounded once, to 260. If each addition
// rounded, every 1 would be lost.
TEST(Direct, AddsSmallFloatsInF32) {
  run_on_threads(4, [&](std::shared_ptr<Transport> transport) {
    BFloat16 x(transport->rank() == 0 ? 256.0f : 1.0f);
    ChunkBuffer scratch;
    drive(*direct_all_reduce(*transport, scratch, &x, 1, bf16, ReduceOp::sum));
    EXPECT_EQ(static_cast<float>(x), 260.0f);
  });
}

TEST(Tree, BroadcastsFromAndReducesToEveryRoot) {
  for (int n : {1, 2, 3, 5, 8}) {
    for (int root = 0; root < n; ++root) {
      run_on_threads(n, [&](std::shared_ptr<Transport> transport) {
        const int r = transport->rank();
        ChunkBuffer scratch;
        std::vector<std::int32_t> told(5, r == root ? 42 : 0), sum(5, 1 << r);
        drive(*tree_broadcast(*transport, scratch, told.data(), 20, root));
        EXPECT_THAT(told, ::testing::Each(42)) << "rank " << r << " of " << n << ", root " << root;
        drive(*tree_reduce(*transport, scratch, sum.data(), 5, i32, ReduceOp::sum, root));
        if (r == root) {
          EXPECT_THAT(sum, ::testing::Each((1 << n) - 1)) << n << ", root " << root;
        }
        float mean = static_cast<float>(r);
        drive(*tree_reduce(*transport, scratch, &mean, 1, f32, ReduceOp::avg, root));
        if (r == root) {
          EXPECT_EQ(mean, static_cast<float>(n - 1) / 2);
        }
      });
    }
  }
}

TEST(Tree, RefusesARootThatIsNoRank) {
  run_on_threads(2, [&](std::shared_ptr<Transport> transport) {
    ChunkBuffer scratch;
    char byte = 0;
    EXPECT_THROW(tree_broadcast(*transport, scratch, &byte, 1, 2), CommError);
  });
}

TEST(Hierarchical, WantsTheNodeOfEveryRank) {
  run_on_threads(2, [&](std::shared_ptr<Transport> transport) {
    ChunkBuffer scratch;
    float x = 0;
    EXPECT_THROW(hierarchical_all_reduce(*transport, scratch, &x, 1, f32, ReduceOp::sum, {0, 0, 1}),
                 CommError);
  });
}

/// Counts the bytes that a rank sends to each peer.
class Counting final : public Transport {
 public:
  explicit Counting(std::shared_ptr<Transport> inner)
      : inner_(std::move(inner)), sent(static_cast<std::size_t>(inner_->world_size())) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  const char* name() const override { return inner_->name(); }
  Request send(int peer, int tag, const void* data, std::size_t bytes) override {
    sent[static_cast<std::size_t>(peer)] += bytes;
    return inner_->send(peer, tag, data, bytes);
  }
  Request recv(int peer, int tag, void* data, std::size_t bytes) override {
    return inner_->recv(peer, tag, data, bytes);
  }
  bool test(Request& request) override { return inner_->test(request); }
  void abandon(Request& request) noexcept override { inner_->abandon(request); }
  void abort(int status) noexcept override { inner_->abort(status); }

 private:
  std::shared_ptr<Transport> inner_;

 public:
  std::vector<std::size_t> sent;  // bytes by peer
};

// As much as a ring, which is the minimum: 2 (N - 1) / N of the data.
TEST(HalvingDoubling, SendsTheLeastPossible) {
  run_on_threads(4, [&](std::shared_ptr<Transport> transport) {
    Counting counting(transport);
    std::vector<float> data(1024);
    ChunkBuffer scratch;
    drive(*halving_doubling_all_reduce(counting, scratch, data.data(), 1024, f32, ReduceOp::sum));
    std::size_t bytes = 0;
    for (std::size_t to_peer : counting.sent) bytes += to_peer;
    EXPECT_EQ(bytes, 4 * 1024 * 2 * 3 / 4);
  });
}

// Both use the same tree of additions, so the choice between them may depend on the size. The
// number of ranks may be any power of two (dist/data_parallel/reproducible.h).
TEST(HalvingDoubling, AddsUpAsRecursiveDoublingDoes) {
  for (int n : {2, 3, 4, 6, 8}) {
    run_on_threads(n, [&](std::shared_ptr<Transport> transport) {
      std::vector<float> x;
      for (int i = 0; i < 1000; ++i)
        x.push_back(1.0f / static_cast<float>(i + 3 * transport->rank() + 1));
      std::vector<float> y = x;
      ChunkBuffer scratch;
      drive(*halving_doubling_all_reduce(*transport, scratch, x.data(), 1000, f32, ReduceOp::sum));
      drive(
          *recursive_doubling_all_reduce(*transport, scratch, y.data(), 1000, f32, ReduceOp::sum));
      EXPECT_EQ(x, y);
    });
  }
}

// With two nodes of two ranks, the two ranks of a node together send the other node 2 (M - 1) / M =
// 1 times the data, each only to its counterpart.
TEST(Hierarchical, CrossesTheNetworkAsLittleAsPossible) {
  run_on_threads(4, [&](std::shared_ptr<Transport> transport) {
    Counting counting(transport);
    const int r = transport->rank();
    std::vector<float> data(1024);
    ChunkBuffer scratch;
    drive(*hierarchical_all_reduce(counting, scratch, data.data(), 1024, f32, ReduceOp::sum,
                                   {0, 0, 1, 1}));
    const int counterpart = (r + 2) % 4, neighbour = r ^ 1, stranger = counterpart ^ 1;
    EXPECT_EQ(counting.sent[static_cast<std::size_t>(counterpart)], 4 * 1024 / 2);
    EXPECT_EQ(counting.sent[static_cast<std::size_t>(neighbour)], 4 * 1024);
    EXPECT_EQ(counting.sent[static_cast<std::size_t>(stranger)], 0);
  });
}

}  // namespace
}  // namespace rondo::dist
