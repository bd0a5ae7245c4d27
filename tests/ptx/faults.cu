#include "ptx/faults.h"

namespace rondo::test {
namespace {

__global__ void sum(float* x, int n) {
  float value = threadIdx.x < n ? x[threadIdx.x] : 0;
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  if (threadIdx.x == 0) x[0] = value;
}
__global__ void misaligned(float* x) {
  const float4 four = *reinterpret_cast<const float4*>(x + 1);
  x[threadIdx.x] = four.x + four.w;
}
__global__ void divergent_barrier(float* x) {
  __shared__ float other[64];
  if (threadIdx.x < 32) {
    other[threadIdx.x + 32] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = other[threadIdx.x];
  } else {
    other[threadIdx.x - 32] = x[threadIdx.x] + 1;
    __syncthreads();
    x[threadIdx.x] = other[threadIdx.x] * 2;
  }
}
__global__ void early_end(float* x) {
  __shared__ float other[64];
  if (threadIdx.x == 7) return;
  other[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = other[63 - threadIdx.x];
}
__global__ void lost_lane(float* x) {
  if (threadIdx.x == 3) return;
  x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
}
__global__ void wrong_mask(float* x) {
  x[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, x[threadIdx.x], 1);
}
__global__ void small_shared(float* x) {
  __shared__ float other[63];
  other[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = other[(threadIdx.x + 1) % 63];
}
__global__ void without_barrier(float* x) {
  __shared__ float other[256];
  other[threadIdx.x] = static_cast<float>(threadIdx.x);
  x[threadIdx.x] = other[255 - threadIdx.x];
}
__global__ void beyond(float* x, int n) { x[threadIdx.x + n] = x[threadIdx.x]; }
__global__ void neighbours(float* x) {
  x[blockIdx.x * 32 + threadIdx.x] += 1;
  if (threadIdx.x == 0) x[64 + blockIdx.x] = x[(1 - blockIdx.x) * 32];
}
__global__ void every_eighth(float* x) { x[8 * threadIdx.x] = x[threadIdx.x]; }
__global__ void with_barrier(float* x) {
  __shared__ float other[256];
  other[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  x[threadIdx.x] = other[255 - threadIdx.x];
}
__global__ void in_warps(float* x) {
  __shared__ float other[64];
  other[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncwarp();
  x[threadIdx.x] = other[threadIdx.x ^ 1];
  atomicAdd(x + 64, 1.0f);
}
__global__ void lone_loop(float* x, int n) {
  float total = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) total += x[i % 64];
  x[0] = total;
}
__global__ void __launch_bounds__(256) bounded() {
  extern __shared__ int memory[];
  memory[threadIdx.x] = 0;
}

}  // namespace

void launch_sum(float* x, int n) { sum<<<1, 32>>>(x, n); }
void launch_misaligned(float* x) { misaligned<<<1, 1>>>(x); }
void launch_divergent_barrier(float* x) { divergent_barrier<<<1, 64>>>(x); }
void launch_early_end(float* x) { early_end<<<1, 64>>>(x); }
void launch_lost_lane(float* x) { lost_lane<<<1, 32>>>(x); }
void launch_wrong_mask(float* x) { wrong_mask<<<1, 32>>>(x); }
void launch_small_shared(float* x) { small_shared<<<1, 64>>>(x); }
void launch_without_barrier(float* x) { without_barrier<<<1, 256>>>(x); }
void launch_beyond(float* x, int n) { beyond<<<1, 32>>>(x, n); }
void launch_neighbours(float* x) { neighbours<<<2, 32>>>(x); }
void launch_every_eighth(float* x) { every_eighth<<<1, 32>>>(x); }
void launch_with_barrier(float* x) { with_barrier<<<1, 256>>>(x); }
void launch_in_warps(float* x) { in_warps<<<1, 64>>>(x); }
void launch_lone_loop(float* x, int n) { lone_loop<<<1, 32>>>(x, n); }
void launch(unsigned blocks, unsigned y, unsigned threads, unsigned shared_bytes) {
  bounded<<<dim3(blocks, y), threads, shared_bytes>>>();
}

}  // namespace rondo::test
