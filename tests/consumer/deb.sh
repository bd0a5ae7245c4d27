#!/bin/sh
# deb.sh FOLDER: installs the Debian packages in FOLDER (extras/packages/deb.sh) with what they depend on, runs the tools,
# and builds programs against them with CMake and pkg-config. As root, in a system that may be thrown away
# (extras/packages/README.md).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install -y --reinstall --no-install-recommends "$1"/*.deb
for tool in rondo-doctor rondo-weights rondo-data; do
  "$tool" --help >/dev/null
  [ -s "/usr/share/man/man1/$tool.1.gz" ] || [ -e /etc/dpkg/dpkg.cfg.d/excludes ]
done
rondo-doctor
apt-get -q install -y --no-install-recommends cmake ninja-build pkg-config
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$here"/CMakeLists.txt "$here"/*.cpp "$scratch"
cmake -G Ninja -S "$scratch" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Release
cmake --build "$scratch/build"
(cd "$scratch" && build/consumer && build/tensors_alone && build/io_alone && build/hub_alone)
flags=$(pkg-config --cflags --libs rondo)
# shellcheck disable=SC2086 # a list of flags
c++ -std=c++20 "$here/io_alone.cpp" $flags -o "$scratch/without_cmake"
(cd "$scratch" && ./without_cmake)
# Removing the packages leaves none of their files.
apt-get -q purge -y librondo
if ls /usr/lib/*/librondo_* /usr/include/rondo 2>/dev/null; then
  echo "files of rondo are left"
  exit 1
fi
