#!/bin/sh
# run.sh BUILD-FOLDER CXX: installs rondo from BUILD-FOLDER into a scratch prefix, then configures,
# builds and runs the project beside this script against it, with nothing else of rondo in sight.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$1" --prefix "$scratch/prefix" >"$scratch/install.log" || { cat "$scratch/install.log"; exit 1; }
mkdir "$scratch/source"
cp "$here"/CMakeLists.txt "$here"/*.cpp "$scratch/source"
cmake -G Ninja -S "$scratch/source" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$2" \
  -DCMAKE_PREFIX_PATH="$scratch/prefix"
cmake --build "$scratch/build"
"$scratch/build/consumer"
"$scratch/build/tensors_alone"

# Every installed header can be included on its own.
cd "$scratch/prefix/include"
find rondo -name '*.h' | sort | sed 's|.*|#include <&>|' >"$scratch/all.cpp"
[ "$(wc -l <"$scratch/all.cpp")" -gt 20 ] || { echo "only these headers were installed:"; cat "$scratch/all.cpp"; exit 1; }
while read -r line; do
  echo "$line" | "$2" -std=c++20 -fsyntax-only -fopenmp -I. -Irondo -x c++ - || { echo "not self-contained: $line"; exit 1; }
done <"$scratch/all.cpp"
