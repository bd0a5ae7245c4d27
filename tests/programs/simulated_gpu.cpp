// The main function of a program that is tested on simulated GPUs. The linker calls it __wrap_main
// and the program's own main __real_main (--wrap=main, tests/CMakeLists.txt). It passes the command
// line on to the program.

#include "support/simulated_gpu.h"

extern "C" int __real_main(int argc, char** argv);

extern "C" int __wrap_main(int argc, char** argv) {
  const rondo::test::SimulatedGpus gpus(rondo::test::SimulatedGpus::Memory::caching);
  return __real_main(argc, argv);
}
