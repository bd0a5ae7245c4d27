// y = condition ? a : b, element by element. Elements are moved without being interpreted; of dense
// tensors, eight by each thread.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {
namespace {

template <class Word>
struct Where {
  Operands<4> operands;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    const char* from = *reinterpret_cast<const bool*>(at.at[0]) ? at.at[1] : at.at[2];
    *reinterpret_cast<Word*>(at.at[3]) = *reinterpret_cast<const Word*>(from);
  }
};

/// Eight words, moved 16 bytes at a time if there are so many.
template <class Word>
struct EightWords {
  static constexpr int bytes = sizeof(Word) < 2 ? 8 : 16;
  struct alignas(bytes) Piece {
    Word words[bytes / sizeof(Word)];
  };
  static constexpr int size = bytes / sizeof(Word), pieces = 8 / size;
  Piece piece[pieces];

  RONDO_HD static EightWords load(const Word* from) {
    EightWords all;
    for (int p = 0; p < pieces; ++p) all.piece[p] = reinterpret_cast<const Piece*>(from)[p];
    return all;
  }
  RONDO_HD void store(Word* to) const {
    for (int p = 0; p < pieces; ++p) {
      if constexpr (bytes == 16) {
        store_16(to + p * size, piece[p]);
      } else {
        reinterpret_cast<Piece*>(to)[p] = piece[p];
      }
    }
  }
  RONDO_HD Word& operator[](int k) { return piece[k / size].words[k % size]; }
};

/// Call i writes elements 8 i … 8 i + 7 of y. A factor that is a single number has step 0.
template <class Word>
struct DenseWhere {
  const bool* condition;
  const Word *a, *b;
  Word* y;
  std::int64_t n, a_step, b_step;
  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t first = 8 * i;
    if (first + 8 > n) {
      const Word *from_a = a + first * a_step, *from_b = b + first * b_step;
      const int left = static_cast<int>(n - first);
      for (int k = 0; k < left; ++k) {
        y[first + k] = *(condition[first + k] ? from_a : from_b);
        from_a += a_step;
        from_b += b_step;
      }
      return;
    }
    auto chosen = EightWords<bool>::load(condition + first);
    auto of_a = eight(a, a_step, first), of_b = eight(b, b_step, first);
    for (int k = 0; k < 8; ++k)
      if (!chosen[k]) of_a[k] = of_b[k];
    of_a.store(y + first);
  }

 private:
  RONDO_HD static EightWords<Word> eight(const Word* x, std::int64_t step, std::int64_t first) {
    if (step != 0) return EightWords<Word>::load(x + first);
    EightWords<Word> all;
    for (int k = 0; k < 8; ++k) all[k] = *x;
    return all;
  }
};

/// Whether each operand is one dense run, or a or b a single number, and aligned.
bool is_dense_where(const Collapsed<4>& shape, const std::array<const Tensor*, 4>& tensors) {
  const DType dtype = tensors[3]->dtype();
  const auto dense = [&](std::size_t k, DType of) {
    return is_packable(shape, k, *tensors[k], of);
  };
  return dense(0, DType::boolean) && (dense(1, dtype) || is_constant(shape, 1)) &&
         (dense(2, dtype) || is_constant(shape, 2)) && dense(3, dtype);
}

}  // namespace

void CudaBackend::do_where(const Tensor& condition, const Tensor& a, const Tensor& b,
                           const Tensor& y) {
  const std::array<const Tensor*, 4> tensors = {&condition, &a, &b, &y};
  const Collapsed<4> shape(tensors);
  const bool is_dense = is_dense_where(shape, tensors);
  visit_word(y.dtype(), [&]<class Word>() {
    if (!is_dense) return for_each(device_, shape.numel, Where<Word>{Operands<4>(shape, tensors)});
    const auto run = [&](std::size_t k) { return reinterpret_cast<Word*>(shape.data[k]); };
    const auto step = [&](std::size_t k) { return is_constant(shape, k) ? 0 : 1; };
    for_each(device_, (shape.numel + 7) / 8,
             DenseWhere<Word>{reinterpret_cast<const bool*>(shape.data[0]), run(1), run(2), run(3),
                              shape.numel, step(1), step(2)});
  });
}

}  // namespace rondo::cuda
