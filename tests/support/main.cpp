// main() of all test programs except test_mpi, whose tests run on every rank (mpi/main.cpp).

#include <gtest/gtest.h>

#include "support/select_file.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return rondo::test::select_file(argc, argv) ? RUN_ALL_TESTS() : 2;
}
