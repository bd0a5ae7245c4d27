#!/usr/bin/env bash
# check.sh WRITE_MODELS [--all]: writes models as ONNX files and runs them in ONNX Runtime (check.py), with the
# Python in $PYTHON, or with the first of build/oracle's, bench/peers' and python3 that has it. Exits with 77 if
# none has.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../../..
for python in ${PYTHON:-"$root/build/oracle/bin/python" "$root/build/peers/bin/python" python3}; do
  if "$python" -c 'import numpy, onnx, onnxruntime, safetensors' 2>/dev/null; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    "$1" "$folder" "${@:2}"
    "$python" "$here/check.py" "$folder"
    exit
  fi
done
echo "check.sh: skipped: no Python here has onnx, onnxruntime and safetensors (scripts/test.sh --oracle installs them)"
exit 77
