#include "tensor/async_copy.h"

#include "tensor/backend.h"
#include "tensor/scratch.h"

#ifdef RONDO_HAS_CUDA
#include "tensor/cuda/allocator.h"
#include "tensor/cuda/index_check.h"
#include "tensor/cuda/stream.h"
#endif

namespace rondo {

#ifdef RONDO_HAS_CUDA

class AsyncCopy::Arrival {
 public:
  Arrival(const Tensor& from, const Tensor& to) : done_(from.device().index), from_(from) {
    const cuda::Stream stream = cuda::current_stream(from.device().index);
    const cuda::DeviceGuard guard(stream.device());
    cuda::check(cuda::cudart().memcpy_async(to.data_ptr(), from.data_ptr(),
                                            static_cast<std::size_t>(from.nbytes()),
                                            cudaMemcpyDeviceToHost, stream.get()));
    done_.record(stream);
  }
  bool is_done() const { return done_.is_done(); }
  void wait() const {
    if (!done_.is_done()) done_.synchronize();
    cuda::check_indices(from_.device().index);
  }

 private:
  cuda::Event done_;
  Tensor from_;  // kept until its values have been copied
};

#else

class AsyncCopy::Arrival {
 public:
  bool is_done() const { return true; }
  void wait() const {}
};

#endif

AsyncCopy::AsyncCopy(const Tensor& x) : host_(dense_copy(x)) {
#ifdef RONDO_HAS_CUDA
  if (x.device().is_cpu() || x.numel() == 0) return;
  cuda::refuse_host_in_capture();
  const Tensor from = host_;
  host_ = Tensor::over(cuda::pinned_storage(static_cast<std::size_t>(x.nbytes()),
                                            cuda::current_stream(x.device().index)),
                       0, x.shape(), from.strides(), x.dtype());
  arrival_ = std::make_shared<Arrival>(from, host_);
#endif
}

bool AsyncCopy::is_ready() const { return arrival_ == nullptr || arrival_->is_done(); }

Tensor AsyncCopy::get() const {
  if (arrival_ != nullptr) arrival_->wait();
  return host_;
}

}  // namespace rondo
