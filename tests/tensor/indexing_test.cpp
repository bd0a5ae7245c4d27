// index_select, index_add, gather and scatter_add against PyTorch, in every layout; the order of
// additions; bad indices.

#include "support/errors.h"
#include "support/golden.h"
#include "support/layouts.h"
#include "support/support.h"

namespace rondo::test {
namespace {

/// The golden index list, modulo the size of the indexed dimension, with gaps between its elements.
Tensor which_for(std::int64_t size) {
  std::vector<std::int64_t> index = kernel_golden()["index.which"].to_vector<std::int64_t>();
  for (std::int64_t& i : index) i %= size;
  return relaid(Layout::gaps, tensor(index));
}

TEST(IndexSelect, AgreesWithPyTorch) {
  for (Layout layout : all_layouts) {
    for (DType dtype : {f32, f64, bf16, i64, i32, i8}) {
      const Tensor x = relaid(layout, kernel_golden()["index.x"], dtype);
      for (std::int64_t dim : {0, 1, 2}) {
        const Tensor want = kernel_golden()[concat("index.select.", dim)];
        Tensor y = empty_in(layout, want.shape(), dtype);
        backend(x).index_select(x, dim, which_for(x.shape()[dim]), y);
        EXPECT_TRUE(identical(y, converted(want, dtype)));
      }
    }
  }
}

TEST(IndexAdd, AgreesWithPyTorch) {
  for (Layout layout : all_layouts) {
    for (DType dtype : {f32, f64}) {
      for (std::int64_t dim : {0, 1, 2}) {
        const Tensor y = relaid(layout, kernel_golden()["index.x"], dtype);
        const Tensor source =
            relaid(layout, kernel_golden()[concat("index.add.source.", dim)], dtype);
        backend(y).index_scatter(ScatterOp::add, y, dim, which_for(y.shape()[dim]), source);
        const Tensor want = converted(kernel_golden()[concat("index.add.", dim)], dtype);
        // PyTorch added in f32: at most four additions of numbers up to 32.
        EXPECT_TRUE(all_close(y, want, tolerance(f32, 4, 8)));
      }
    }
  }
}

TEST(Gather, AgreesWithPyTorch) {
  for (Layout layout : all_layouts) {
    for (DType dtype : {f32, f64, f16, i64, u8}) {
      const Tensor x = relaid(layout, kernel_golden()["index.x"], dtype);
      for (std::int64_t dim : {0, 1, 2}) {
        const Tensor index = relaid(layout, kernel_golden()[concat("gather.index.", dim)]);
        Tensor y = empty_in(layout, index.shape(), dtype);
        backend(x).gather(x, dim, index, y);
        // Conversion and gathering commute.
        Tensor want = empty(index.shape(), {.dtype = dtype});
        backend(x).gather(converted(kernel_golden()["index.x"], dtype), dim, converted(index, i64),
                          want);
        EXPECT_TRUE(identical(y, want));
        if (dtype == f32) {
          EXPECT_TRUE(identical(y, kernel_golden()[concat("gather.", dim)]));
        }
      }
    }
  }
}

TEST(ScatterAdd, AgreesWithPyTorch) {
  for (Layout layout : all_layouts) {
    for (DType dtype : {f32, f64}) {
      for (std::int64_t dim : {0, 1, 2}) {
        const Tensor y = relaid(layout, kernel_golden()["index.x"], dtype);
        const Tensor index = relaid(layout, kernel_golden()[concat("gather.index.", dim)]);
        Tensor source = relaid(layout, kernel_golden()[concat("scatter_add.source.", dim)], dtype);
        for (std::int64_t d = 0; d < 3; ++d) source = source.narrow(d, 0, index.size(d));
        backend(y).scatter(ScatterOp::add, y, dim, index, source);
        const Tensor want = converted(kernel_golden()[concat("scatter_add.", dim)], dtype);
        EXPECT_TRUE(all_close(y, want, tolerance(f32, 6, 8)));
      }
    }
  }
}

TEST(IndexAdd, RepeatedIndicesAddUpInOrder) {
  // 2^24 + 1 + 1 is 2^24 in f32, while 1 + 1 + 2^24 is not: the result depends on the order.
  const Tensor up = zeros({1, 200}), down = zeros({1, 200});
  const Tensor index = zeros({3}, {.dtype = i64});
  Tensor rising = ones({3, 200}), falling = ones({3, 200});
  backend(up).fill(rising.as_view({200}, {1}, 400), 0x1p24);
  backend(up).fill(falling.as_view({200}, {1}, 0), 0x1p24);
  backend(up).index_scatter(ScatterOp::add, up, 0, index, rising);
  backend(up).index_scatter(ScatterOp::add, down, 0, index, falling);
  EXPECT_TRUE(identical(up, full({1, 200}, 0x1p24 + 2)));
  EXPECT_TRUE(identical(down, full({1, 200}, 0x1p24)));
}

/// Rounded after each addition, 1 + 1 + … would stay at 256 in bf16 and 2048 in f16.
TEST(IndexAdd, SumsOfSixteenBitsAreRoundedOnce) {
  for (const DType dtype : {bf16, f16}) {
    const Tensor y = zeros({2, 3}, {.dtype = dtype}), x = ones({3000, 3}, {.dtype = dtype});
    backend(y).index_scatter(ScatterOp::add, y, 0, zeros({3000}, {.dtype = i64}), x);
    EXPECT_EQ(y[0].to_vector<double>(),
              std::vector<double>(3, dtype == bf16 ? 3008 : 3000));  // bf16 cannot represent 3000
    const Tensor z = zeros({2, 3}, {.dtype = dtype});
    backend(z).scatter(ScatterOp::add, z, 0, zeros({3000, 3}, {.dtype = i64}), x);
    EXPECT_TRUE(test::identical(y, z));
  }
}

TEST(IndexAdd, LargeEnoughForThreads) {
  const std::int64_t rows = 1009, columns = 131, sources = 2003;
  Generator generator(8);
  const Tensor index = randint(0, rows, {sources}, {.dtype = i64}, generator);
  const Tensor x = randint(-9, 10, {sources, columns}, {.dtype = f32}, generator);
  const Tensor y = zeros({rows, columns});
  backend(y).index_scatter(ScatterOp::add, y, 0, index, x);
  std::vector<float> want(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < sources; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      want[index.data_ptr<std::int64_t>()[i] * columns + j] += x.data_ptr<float>()[i * columns + j];
    }
  }
  EXPECT_EQ(y.to_vector(), want);
  Tensor rows_of = empty({sources, columns});
  backend(y).index_select(y, 0, index, rows_of);
  for (std::int64_t i = 0; i < sources; ++i) {
    ASSERT_EQ(rows_of.data_ptr<float>()[i * columns],
              want[index.data_ptr<std::int64_t>()[i] * columns]);
  }
}

TEST(IndexAdd, IntegersWrapAndBooleansOr) {
  const Tensor index = tensor<std::int64_t>({0, 0, 1});
  const Tensor y = tensor<std::int8_t>({100, 1});
  backend(y).index_scatter(ScatterOp::add, y, 0, index, tensor<std::int8_t>({27, 1, 2}));
  EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{-128, 3}));
  const Tensor flags = tensor<bool>({false, false});
  backend(y).index_scatter(ScatterOp::add, flags, 0, index, tensor<bool>({true, true, false}));
  EXPECT_EQ(flags.to_vector<int>(), (std::vector<int>{1, 0}));
}

TEST(Indexing, EmptyIndexAndEmptyRuns) {
  const Tensor x = ones({3, 4}), none = empty({0}, {.dtype = i64});
  Tensor y = empty({0, 4});
  EXPECT_NO_THROW(backend(x).index_select(x, 0, none, y));
  EXPECT_NO_THROW(backend(x).index_scatter(ScatterOp::add, x, 0, none, y));
  EXPECT_TRUE(identical(x, ones({3, 4})));
  Tensor narrow = empty({2, 0});
  EXPECT_NO_THROW(backend(x).index_select(empty({3, 0}), 0, tensor<std::int64_t>({0, 2}), narrow));
}

TEST(Indexing, BadIndicesAreNamed) {
  const Tensor x = ones({3, 2});
  for (std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}}) {
    const Tensor index = tensor<std::int64_t>({0, bad, 1});
    Tensor y = zeros({3, 2});
    auto message = [&](auto call) {
      try {
        call();
      } catch (const ShapeError& error) {
        return std::string(error.what());
      }
      return std::string("no error");
    };
    const std::string want =
        concat(": index ", bad, " is out of range for dimension 0 of size 3 (valid: 0 to 2)");
    EXPECT_EQ(message([&] { backend(x).index_select(x, 0, index, y); }), "index_select" + want);
    EXPECT_EQ(message([&] { backend(x).index_scatter(ScatterOp::add, y, 0, index, x); }),
              "index_add" + want);
    const Tensor grid = index.as_view({3, 2}, {1, 0}, 0);
    EXPECT_EQ(message([&] {
                backend(x).gather(x, 0, grid, Tensor::empty({3, 2}));
              }),
              "gather" + want);
    EXPECT_EQ(message([&] { backend(x).scatter(ScatterOp::add, y, 0, grid, x); }),
              "scatter_add" + want);
    EXPECT_TRUE(identical(y, zeros({3, 2})));
  }
}

// Threads share the check, and each may find another invalid entry.
TEST(Indexing, TheFirstBadIndexOfALongOneIsNamed) {
  const std::int64_t n = 200'000;
  const Tensor index = zeros({n}, {.dtype = i64}), x = ones({n}), y = zeros({2});
  index.data_ptr<std::int64_t>()[120'000] = 7;
  index.data_ptr<std::int64_t>()[n - 1] = -3;
  EXPECT_ERROR(backend(x).index_scatter(ScatterOp::add, y, 0, index, x), ShapeError,
               "index_add: index 7 is out of range for dimension 0 of size 2");
  EXPECT_TRUE(identical(y, zeros({2})));
  for (const Dims& strides : {Dims{400, 1}, Dims{1, 500}}) {
    const Tensor grid = index.as_view({500, 400}, strides, 0), rows = ones({500, 2});
    EXPECT_ERROR(backend(x).gather(rows, 1, grid, Tensor::empty({500, 400})), ShapeError,
                 "gather: index 7 is out of range");
  }
  const Tensor nothing = Tensor::empty({500, 0});
  EXPECT_ERROR(backend(x).gather(nothing, 1, index.as_view({500, 400}, {400, 1}, 0),
                                 Tensor::empty({500, 400})),
               ShapeError, "gather: index 0 is out of range");
}

}  // namespace
}  // namespace rondo::test
