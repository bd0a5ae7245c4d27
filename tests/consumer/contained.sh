#!/bin/sh
# contained.sh ROOT CXX [build]: a project that contains rondo, by FetchContent, gets the libraries and nothing else.
# With `build` (scripts/test.sh --slow) it is also built and run, and so is one that uses add_subdirectory.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1 cxx=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# project NAME LINES: configures a project in which LINES add rondo.
project() {
  mkdir "$scratch/$1"
  cp "$here/tensors_alone.cpp" "$scratch/$1/main.cpp"
  cat >"$scratch/$1/CMakeLists.txt" <<LIST
cmake_minimum_required(VERSION 3.22)
project(holder LANGUAGES CXX)
$2
add_executable(holder main.cpp)
target_link_libraries(holder PRIVATE rondo::tensor)
install(TARGETS holder)
LIST
  cmake -G Ninja -S "$scratch/$1" -B "$scratch/$1/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" \
    -DRONDO_CUDA=OFF >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
}
project fetched "include(FetchContent)
FetchContent_Declare(rondo SOURCE_DIR $root)
FetchContent_MakeAvailable(rondo)"
# Neither programs nor tests of rondo, and rondo's files are not installed with the project's.
targets=$(ninja -C "$scratch/fetched/build" -t targets all)
if echo "$targets" | grep -E '(cifar_resnet|rondo-doctor|test_nn|train_step)(\.dir|:)'; then
  echo "rondo's programs are part of a project that contains it"
  exit 1
fi
if grep -q rondoConfig "$scratch/fetched/build/_deps/rondo-build/cmake_install.cmake"; then
  echo "rondo is installed with a project that contains it"
  exit 1
fi
if [ "${3:-}" = build ]; then
  project added "add_subdirectory($root rondo)"
  for name in fetched added; do
    cmake --build "$scratch/$name/build" --target holder
    find "$scratch/$name/build" -name holder -type f -perm -100 -exec {} \;
  done
fi
