#pragma once
// select_file: selects the tests of a program that run. A folder of tests/ is one program, and a
// CTest entry is one file of it, in its own process: entry nn/layers is `test_nn --file=nn/layers`.

namespace rondo::test {

/// Reads `--file=NAME`, the only argument that InitGoogleTest leaves, and restricts GoogleTest's
/// filter to the tests of tests/NAME_test.cpp. If the argument is unknown or the program has no
/// test of that file, it prints an error and returns false.
bool select_file(int argc, char** argv);

}  // namespace rondo::test
