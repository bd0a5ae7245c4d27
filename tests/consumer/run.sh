#!/bin/sh
# run.sh BUILD-FOLDER CXX [each]: installs rondo from BUILD-FOLDER into a scratch prefix, then configures, builds
# and runs the project in this folder against it, without access to the rest of rondo.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
cxx=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$1" --prefix "$scratch/prefix" >"$scratch/install.log" || { cat "$scratch/install.log"; exit 1; }
mkdir "$scratch/source"
cp "$here"/CMakeLists.txt "$here"/*.cpp "$scratch/source"
cmake -G Ninja -S "$scratch/source" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$scratch/prefix"
# rondo's hardening flags must not be passed on to its users (cmake/flags.cmake).
if grep -E 'FORTIFY|stack-protector|relro' "$scratch/build/build.ninja"; then
  echo "users of rondo are compiled or linked with its flags"
  exit 1
fi
cmake --build "$scratch/build"
"$scratch/build/consumer"
"$scratch/build/tensors_alone"
(cd "$scratch" && build/io_alone && build/hub_alone)

# A project without CMake.
if command -v pkg-config >/dev/null; then
  flags=$(PKG_CONFIG_PATH=$(dirname "$(find "$scratch/prefix" -name rondo.pc)") pkg-config --cflags --libs rondo)
  # shellcheck disable=SC2086 # a list of flags
  "$cxx" -std=c++20 "$here/io_alone.cpp" $flags -Wl,-rpath,"$scratch/prefix/lib" -o "$scratch/without_cmake"
  (cd "$scratch" && ./without_cmake)
fi

# Every installed header can be included on its own. With `each` (scripts/test.sh --slow) this compiles all of
# them, with nothing included before. Otherwise it compiles those without a .cpp file, with a precompiled standard
# library: tests/layering/check.sh checks whether a header includes the standard headers that it needs.
cd "$scratch/prefix/include"
find rondo -name '*.h' | sort >"$scratch/headers"
[ "$(wc -l <"$scratch/headers")" -gt 20 ] || { echo "only these headers were installed:"; cat "$scratch/headers"; exit 1; }
: >"$scratch/standard.h"
if [ "${3:-}" != each ]; then
  printf '#include <%s>\n' algorithm atomic chrono cmath filesystem fstream functional map memory mutex optional set span \
    sstream string thread variant vector >"$scratch/standard.h"
  "$cxx" -std=c++20 -fopenmp -x c++-header "$scratch/standard.h" -o "$scratch/standard.h.gch"
fi
# stands NAME: checks that the includes in standard input compile with nothing before them.
stands() {
  "$cxx" -std=c++20 -fsyntax-only -fopenmp -I. -Irondo -include "$scratch/standard.h" -x c++ - ||
    { echo "cannot be included: $1"; exit 1; }
}
sed 's|.*|#include <&>|' "$scratch/headers" | stands "all installed headers"
while read -r header; do
  source=${header#rondo/}
  if [ "${3:-}" = each ] || [ ! -e "$root/${source%.h}.cpp" ]; then echo "#include <$header>" | stands "$header"; fi
done <"$scratch/headers"
