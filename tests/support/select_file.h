#pragma once
// select_file: which tests of a program run. A folder of tests/ is one program, and a CTest entry
// is one file of it in a process of its own: entry nn/layers is `test_nn --file=nn/layers`.

namespace rondo::test {

/// Reads and removes `--file=NAME` and leaves only the tests of tests/NAME_test.cpp in the filter,
/// next to what --gtest_filter says. Call it after InitGoogleTest. Returns false, having said why
/// on stderr, if the program has no test of that file.
bool select_file(int* argc, char** argv);

}  // namespace rondo::test
