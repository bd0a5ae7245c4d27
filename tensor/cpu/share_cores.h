#pragma once
// Lets waiting threads sleep while other programs use the cores.
//
// Note [Shared cores]
// GCC's OpenMP threads wait actively at the end of each parallel loop, for 300,000 turns, before
// they sleep. If another process uses one of the cores, the waiting threads take the time of the
// thread that they wait for: next to one busy process on two cores, a step of ResNet-20 took 2.7
// times as long as alone. With short waits it takes 2.1 times as long. But short waits cost 4 to
// 10 % when nothing else runs, so rondo uses them only while the kernel takes cores from its
// threads.
//
// libgomp reads its settings (GOMP_SPINCOUNT, OMP_WAIT_POLICY) once, before main. But its threads
// wait for only 100 turns while a program has more OpenMP threads than cores (libgomp's manual,
// GOMP_SPINCOUNT). A second team, with a thread for each core, makes this so; its threads sleep.
// LLVM's libomp gives way by itself, and the second team changes nothing there.

namespace rondo::cpu {

/// Compares how often the kernel took a core from this process since the last call with the time
/// that it computed, and changes to short or to long waits. To be called again and again, such as
/// once per step. Thread-safe.
void share_cores();

}  // namespace rondo::cpu
