#!/bin/sh
# symbols.sh FOLDER: do the static libraries in FOLDER only call lower layers? Includes can be correct while a
# symbol declared in a lower layer is defined in a higher one; a shared library of the lower layer would then not
# link.
set -eu
cd "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
extras="linalg fft quantization torch_files hdf5 onnx export_cpp tensorboard report hub text tape_graph"
for folder in tensor autograd nn optim data io dist train $extras; do
  [ -e librondo_$folder.a ] || { : >"$scratch/$folder.uses"; : >"$scratch/$folder.has"; continue; }
  nm -u librondo_$folder.a | awk '$1 == "U" { print $2 }' | sort -u >"$scratch/$folder.uses"
  # Only strong definitions: inline functions and templates are defined wherever they are used.
  nm --defined-only librondo_$folder.a | awk '$2 ~ /^[TDBR]$/ { print $3 }' | sort -u >"$scratch/$folder.has"
done
status=0
# against LOWER UPPER…: LOWER must not use symbols that only UPPER defines.
against() {
  lower=$1
  shift
  for upper in "$@"; do
    comm -12 "$scratch/$lower.uses" "$scratch/$upper.has" | comm -23 - "$scratch/$lower.has" | c++filt >"$scratch/found"
    if [ -s "$scratch/found" ]; then
      echo "$lower calls $upper:"
      sed 's/^/  /' "$scratch/found"
      status=1
    fi
  done
}
against tensor autograd nn optim data io dist train $extras
against autograd nn optim data io dist train $extras
against nn optim data io dist train $extras
against optim data io dist train $extras
against data autograd nn optim io dist train $extras
against io data dist train $extras
against dist data io train $extras
against train $extras
exit $status
