#include "support/mpi_main.h"

int main(int argc, char** argv) { return rondo::test::mpi_main(argc, argv); }
