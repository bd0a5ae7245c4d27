// Matrix products with cuBLASLt, with the bias and the activation applied in the same kernel.
//
// cuBLASLt uses column-major matrices: rondo's row-major y (M, N) is for it the column-major
// transpose (N, M). So rondo asks for y^T = c^T a^T, where c^T and a^T are again rondo's own
// memory, read by columns. The bias (N), one for each of rondo's columns, becomes a bias for each
// row, which cuBLASLt adds at no cost. Transposed views are read without a copy; all other strided
// inputs are copied first.
//
// The first kernel that cuBLASLt's heuristics propose is used as the fastest one. A query takes
// some microseconds, so the answers are cached.

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "tensor/cuda/cublaslt.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/stream.h"
#include "tensor/matrix.h"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

constexpr std::size_t most_workspace = std::size_t{32} << 20;  // used by Hopper's kernels

void check_blas(cublasStatus_t status, const char* what) {
  require<CudaError>(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt: ", what, " failed with status ",
                     static_cast<int>(status),
                     status == CUBLAS_STATUS_NOT_SUPPORTED ? " (not supported)" : "");
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      require<DTypeError>(dtype == f16, "matmul: no CUDA kernel for ", dtype);
      return CUDA_R_16F;
  }
}

cublasComputeType_t compute_type(DType dtype) {
  if (dtype == f64) return CUBLAS_COMPUTE_64F;
  if (dtype == f32 && allowed_tf32() == Tf32::all) return CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_COMPUTE_32F;
}

/// One of cuBLASLt's descriptors, destroyed at the end of the scope.
template <class Handle>
struct Owned {
  Handle handle = nullptr;
  cublasStatus_t (*destroy)(Handle);
  explicit Owned(cublasStatus_t (*d)(Handle)) : destroy(d) {}
  ~Owned() {
    if (handle != nullptr) destroy(handle);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
};

/// A matrix of rondo as cuBLASLt reads it: by columns, so that rows and columns are exchanged.
class BlasLayout : public Owned<cublasLtMatrixLayout_t> {
 public:
  /// rows, columns: those of the transpose in memory.
  BlasLayout(const CublasLt& lt, DType dtype, std::int64_t rows, std::int64_t columns,
             std::int64_t leading, std::int64_t batch_count, std::int64_t batch_stride)
      : Owned(lt.layout_destroy) {
    check_blas(lt.layout_create(&handle, data_type(dtype), static_cast<std::uint64_t>(rows),
                                static_cast<std::uint64_t>(columns), leading),
               "a matrix layout");
    const auto count = static_cast<std::int32_t>(batch_count);
    check_blas(lt.layout_set(handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
               "a batch count");
    check_blas(lt.layout_set(handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                             sizeof batch_stride),
               "a batch stride");
  }
};

/// An operand, and how cuBLASLt gets its transpose: directly from memory, or by transposing.
struct BlasOperand {
  MatrixLayout memory;
  cublasOperation_t operation;
  std::int64_t rows, columns;  // as cuBLASLt reads the memory, by columns

  explicit BlasOperand(const Tensor& x)
      : memory(x),
        operation(memory.row_major ? CUBLAS_OP_N : CUBLAS_OP_T),
        rows(x.size(memory.row_major ? 2 : 1)),
        columns(x.size(memory.row_major ? 1 : 2)) {}
};

Tensor readable(const Tensor& x) {
  return is_row_major(x) || is_column_major(x) ? x : dense_copy(x);
}

cublasLtHandle_t handle_of(int device, const CublasLt& lt) {
  static std::mutex mutex;
  static auto* handles = new std::map<std::pair<int, const CublasLt*>, cublasLtHandle_t>;
  std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = (*handles)[{device, &lt}];
  if (handle == nullptr) check_blas(lt.create(&handle), "cublasLtCreate");
  return handle;
}

/// The values on which the choice of a kernel depends.
using Problem = std::tuple<int, DType, cublasLtEpilogue_t, bool, std::array<std::int64_t, 14>>;

struct Kernel {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace;  // bytes
};

class MatmulKernels {
 public:
  static MatmulKernels& instance() {
    static auto* kernels = new MatmulKernels;
    return *kernels;
  }
  /// The kernel, or nullopt.
  template <class Ask>
  std::optional<Kernel> get(const Problem& problem, Ask ask) {
    std::lock_guard lock(mutex_);
    auto found = known_.find(problem);
    if (found == known_.end()) found = known_.emplace(problem, ask()).first;
    return found->second;
  }

 private:
  std::mutex mutex_;
  std::map<Problem, std::optional<Kernel>> known_;
};

/// The largest power of two, at most 256, that divides an address: the choice of a kernel depends
/// on it.
std::int64_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address % 256 == 0 ? 256 : static_cast<std::int64_t>(address & -address);
}

cublasLtEpilogue_t epilogue_of(bool has_bias, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::gelu_tanh:
      return has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Activation::none:
      break;
  }
  return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// y = a c with an epilogue, which reads or writes `vector`: a bias (N), or the sums (M) of a's
/// rows. All tensors except a and c must be dense. Returns false if no kernel supports the problem.
bool run(int device, const Tensor& a, const Tensor& c, cublasLtEpilogue_t epilogue,
         const Tensor& vector, const Tensor& y) {
  DeviceGuard guard(device);
  const CublasLt& lt = cublaslt();
  cublasLtHandle_t handle = handle_of(device, lt);
  const BlasOperand left(c), right(a);  // c^T a^T
  const std::int64_t batches = y.size(0), m = y.size(1), n = y.size(2);

  Owned<cublasLtMatmulDesc_t> desc(lt.desc_destroy);
  const cudaDataType_t scale_type = y.dtype() == f64 ? CUDA_R_64F : CUDA_R_32F;
  check_blas(lt.desc_create(&desc.handle, compute_type(y.dtype()), scale_type), "a description");
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    check_blas(lt.desc_set(desc.handle, attribute, &value, sizeof value), "an attribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, left.operation);
  set(CUBLASLT_MATMUL_DESC_TRANSB, right.operation);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (vector.defined()) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(vector.data_ptr()));
  }
  BlasLayout left_layout(lt, y.dtype(), left.rows, left.columns, left.memory.leading, batches,
                         left.memory.batch);
  BlasLayout right_layout(lt, y.dtype(), right.rows, right.columns, right.memory.leading, batches,
                          right.memory.batch);
  BlasLayout result(lt, y.dtype(), n, m, n, batches, m * n);

  const Problem problem{
      device,
      y.dtype(),
      epilogue,
      allowed_tf32() == Tf32::all,
      {batches, m, n, a.size(2), left.operation, right.operation, left.memory.leading,
       right.memory.leading, left.memory.batch, right.memory.batch, alignment_of(c.data_ptr()),
       alignment_of(a.data_ptr()), alignment_of(y.data_ptr()),
       vector.defined() ? alignment_of(vector.data_ptr()) : 0}};
  const auto kernel = MatmulKernels::instance().get(problem, [&]() -> std::optional<Kernel> {
    Owned<cublasLtMatmulPreference_t> preference(lt.preference_destroy);
    check_blas(lt.preference_create(&preference.handle), "a preference");
    auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check_blas(lt.preference_set(preference.handle, attribute, &value, sizeof value),
                 "a preference's attribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{most_workspace});
    auto aligned = [&](cublasLtMatmulPreferenceAttributes_t attribute, const Tensor& x) {
      prefer(attribute, static_cast<std::uint32_t>(alignment_of(x.data_ptr())));
    };
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, c);
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a);
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, y);
    aligned(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, y);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status =
        lt.get_heuristic(handle, desc.handle, left_layout.handle, right_layout.handle,
                         result.handle, result.handle, preference.handle, 1, &best, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_blas(status, "the choice of a kernel");
    const bool is_usable =
        status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    if (!is_usable) return std::nullopt;
    return Kernel{best.algo, best.workspaceSize};
  });
  if (!kernel) return false;

  const AllocationTag tag("workspaces");
  const Tensor workspace = Tensor::empty({static_cast<std::int64_t>(kernel->workspace)},
                                         {.dtype = u8, .device = y.device()});
  const double one = 1, zero = 0;
  const float one_f32 = 1, zero_f32 = 0;
  const bool wide = y.dtype() == f64;
  check_blas(lt.matmul(handle, desc.handle, wide ? static_cast<const void*>(&one) : &one_f32,
                       c.data_ptr(), left_layout.handle, a.data_ptr(), right_layout.handle,
                       wide ? static_cast<const void*>(&zero) : &zero_f32, y.data_ptr(),
                       result.handle, y.data_ptr(), result.handle, &kernel->algorithm,
                       workspace.data_ptr(), kernel->workspace, current_stream(device).get()),
             "a matrix product");
  return true;
}

}  // namespace

void CudaBackend::do_matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y,
                            Activation activation) {
  if (y.numel() == 0) return;
  auto add_by_hand = [&](const Tensor& result) {
    if (bias.defined())
      do_binary(BinaryOp::add, result, bias.broadcast_view(y.shape()), result, {});
    apply_activation(activation, result);
  };
  if (a.size(2) == 0) {
    do_fill(y, 0);
    return add_by_hand(y);
  }
  if (!is_floating(y.dtype())) {
    matmul_integers(a, c, bias, y);
    return apply_activation(activation, y);
  }
  const Tensor left = readable(a), right = readable(c);
  const Tensor result = dense_output(y, MemoryFormat::contiguous);
  // f64 has no epilogues, other dtypes lack some of them for odd sizes, and a bias is read 16 bytes
  // at a time.
  const bool plain = !bias.defined() && activation == Activation::none;
  const Tensor row = bias.defined() ? dense(bias) : Tensor();
  const bool is_aligned = !bias.defined() || alignment_of(row.data_ptr()) >= 16;
  const bool fused =
      !plain && y.dtype() != f64 && is_aligned &&
      run(device_, left, right, epilogue_of(bias.defined(), activation), row, result);
  if (!fused) {
    require<CudaError>(run(device_, left, right, CUBLASLT_EPILOGUE_DEFAULT, {}, result),
                       "cuBLASLt has no kernel for ", y.dtype(), ' ', a.shape(), " times ",
                       c.shape());
    add_by_hand(result);
  }
  if (!result.is_same(y)) do_copy(result, y);
}

// cuBLASLt calls y's transpose D and a's B: BGRADB sums B over K, and has a sum for each of D's
// columns. For 16-bit types only: whether the sums of f32 are exact with TF32 is not documented.
void CudaBackend::do_matmul_and_row_sums(const Tensor& a, const Tensor& c, const Tensor& y,
                                         const Tensor& sums) {
  const Tensor result = dense_output(y, MemoryFormat::contiguous);
  const bool fused = y.numel() > 0 && a.size(2) > 0 && sums.is_contiguous() &&
                     alignment_of(sums.data_ptr()) >= 16 &&
                     run(device_, readable(a), readable(c), CUBLASLT_EPILOGUE_BGRADB, sums, result);
  if (!fused) {
    do_matmul(a, c, {}, y, Activation::none);
    return do_reduce(
        ReductionOp::sum, a,
        sums.as_view({1, sums.numel(), 1}, {0, sums.stride(0), 0}, sums.storage_offset()));
  }
  if (!result.is_same(y)) do_copy(result, y);
}

}  // namespace rondo::cuda
