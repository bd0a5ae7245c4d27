#!/bin/sh
# run.sh BUILD-FOLDER CXX [each]: installs rondo from BUILD-FOLDER into a scratch prefix, then configures, builds
# and runs the project in this folder against it, without access to the rest of rondo.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cxx=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$1" --prefix "$scratch/prefix" >"$scratch/install.log" || { cat "$scratch/install.log"; exit 1; }
mkdir "$scratch/source"
cp "$here"/CMakeLists.txt "$here"/*.cpp "$scratch/source"
# A project has files of its own that are called as rondo's are.
mkdir "$scratch/source/data" "$scratch/source/nn"
echo '#error "rondo includes a header of the project"' | tee "$scratch/source/data/dataset.h" >"$scratch/source/nn/module.h"
cmake -G Ninja -S "$scratch/source" -B "$scratch/build" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_FIND_ROOT_PATH="$scratch/prefix" # the latter for a cross compiler
# rondo's hardening flags must not be passed on to its users (cmake/flags.cmake).
if grep -E 'FORTIFY|stack-protector|relro' "$scratch/build/build.ninja"; then
  echo "users of rondo are compiled or linked with its flags"
  exit 1
fi
cmake --build "$scratch/build"
"$scratch/build/consumer"
"$scratch/build/tensors_alone"
(cd "$scratch" && build/io_alone && build/hub_alone)

# A project without CMake. (A cross compiler would need more flags than rondo.pc has.)
if [ -z "${CMAKE_TOOLCHAIN_FILE:-}" ] && command -v pkg-config >/dev/null; then
  flags=$(PKG_CONFIG_PATH=$(dirname "$(find "$scratch/prefix" -name rondo.pc)") pkg-config --cflags --libs rondo)
  # shellcheck disable=SC2086 # a list of flags
  "$cxx" -std=c++20 "$here/io_alone.cpp" $flags -Wl,-rpath,"$scratch/prefix/lib" -o "$scratch/without_cmake"
  (cd "$scratch" && ./without_cmake)
fi

# The installed headers need no header that is not installed. With `each` (scripts/test.sh --slow) each of them is also
# compiled alone, as C++20 and as C++23.
cd "$scratch/prefix/include"
find rondo -name '*.h' | sort >"$scratch/headers"
[ "$(wc -l <"$scratch/headers")" -gt 20 ] || { echo "only these headers were installed:"; cat "$scratch/headers"; exit 1; }
# stands NAME [FLAG]: checks that the includes in standard input compile with nothing before them.
stands() {
  "$cxx" "${2:--std=c++20}" -fsyntax-only -fopenmp -I. -x c++ - || { echo "cannot be included: $1"; exit 1; }
}
sed 's|.*|#include <&>|' "$scratch/headers" | stands "all installed headers"
if [ "${3:-}" = each ]; then
  sed 's|.*|#include <&>|' "$scratch/headers" | stands "all installed headers, as C++23" -std=c++23
  while read -r header; do
    echo "#include <$header>" | stands "$header"
  done <"$scratch/headers"
fi
