#pragma once
// select_file: which tests of a program run. A folder of tests/ is one program, and a CTest entry
// is one file of it in a process of its own: entry nn/layers is `test_nn --file=nn/layers`.

namespace rondo::test {

/// Reads `--file=NAME`, the only argument that InitGoogleTest leaves, and adds to GoogleTest's
/// filter that only the tests of tests/NAME_test.cpp run. Prints an error and returns false if the
/// argument is unknown or the program has no test of that file.
bool select_file(int argc, char** argv);

}  // namespace rondo::test
