#pragma once
// Launches of small kernels, most of which have a fault.

namespace rondo::test {

void launch_sum(float* x, int n);         // has no fault: x[0] = the sum of one warp's n values
void launch_misaligned(float* x);         // reads 16 bytes at x + 1
void launch_divergent_barrier(float* x);  // half of the block waits at another barrier
void launch_early_end(float* x);          // thread 7 ends before a barrier
void launch_lost_lane(float* x);          // lane 3 ends before a shuffle
void launch_wrong_mask(float* x);         // all lanes shuffle with a mask of 16
void launch_small_shared(float* x);       // writes one element after a shared array
void launch_without_barrier(
    float* x);  // reads what another thread writes: x[i] = 255 - i if it works
void launch_beyond(float* x, int n);     // writes n elements after those that it reads
void launch_neighbours(float* x);        // each of two blocks reads what the other writes
void launch_every_eighth(float* x);      // reads 32 floats, writes them to every eighth
void launch_with_barrier(float* x);      // has no fault: without_barrier with one
void launch_in_warps(float* x);          // has no fault: warps that order themselves, atomic sums
void launch_lone_loop(float* x, int n);  // one thread that adds n numbers
void launch(unsigned blocks, unsigned y, unsigned threads, unsigned shared_bytes);

}  // namespace rondo::test
