#!/usr/bin/env bash
# check.sh FOLDER: makes the goldens again with the PyTorch of bench/peers/requirements.txt, in a virtual
# environment in FOLDER, and compares them with the committed ones.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$here/../../bench/peers/setup.sh" "$1")
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
cp "$here"/*.py "$fresh"
for script in "$fresh"/make_*.py; do
  (cd "$fresh" && "$python" "$script")
done
"$python" "$here/compare.py" "$here" "$fresh"
