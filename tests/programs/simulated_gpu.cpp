// The main of a program that is tested on GPUs that exist in the test alone; its own main has
// another name (tests/CMakeLists.txt). The rest of the command line is the program's.

#include "support/simulated_gpu.h"

int rondo_program_main(int argc, char** argv);

int main(int argc, char** argv) {
  const rondo::test::SimulatedGpus gpus(rondo::test::SimulatedGpus::Memory::caching);
  return rondo_program_main(argc, argv);
}
