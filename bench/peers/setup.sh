#!/usr/bin/env bash
# setup.sh [FOLDER]: installs requirements.txt (PyTorch, several GB with its CUDA libraries) into a virtual
# environment in FOLDER, build/peers by default, and prints the path of its Python.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/help.sh"
at_most 1 "$@"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-$here/../../build/peers}
if ! cmp -s "$here/requirements.txt" "$folder/installed.txt"; then
  python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' || {
    echo "setup.sh: needs Python 3.11 or later with venv (scripts/setup.sh extra installs it)" >&2
    exit 1
  }
  python3 -m venv "$folder" >&2
  "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2
  cp "$here/requirements.txt" "$folder/installed.txt"
fi
(cd "$folder/bin" && echo "$PWD/python")
