#!/bin/sh
# symbols.sh FOLDER: the shared libraries in FOLDER have a SONAME with rondo's version, and show neither the kernels of an
# instruction set nor code of other libraries.
set -eu
status=0
for library in "$1"/librondo_*.so; do
  soname=$(readelf -dW "$library" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
  echo "$soname" | grep -Eq '^librondo_[a-z0-9_]+\.so\.[0-9]+\.[0-9]+$' || { echo "$library: its SONAME is '$soname'"; status=1; }
  shown=$(nm -D --defined-only "$library" | awk '{ print $3 }' | c++filt |
    grep -E '^(([a-z ]+ )?(for )?(nlohmann|fmt|dnnl|google)::|cuda[A-Z]|rondo::([a-z]+::)*(avx2|avx512|generic|sve[0-9]+)::)' || true)
  [ -z "$shown" ] || { echo "$library shows:"; echo "$shown" | head -n 5; status=1; }
done
exit $status
