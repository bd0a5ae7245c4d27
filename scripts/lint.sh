#!/usr/bin/env bash
# Looks at the sources without running them: clang-format (the layout is as .clang-format has it) and
# clang-tidy (.clang-tidy; ten minutes on two cores).
#
#   scripts/lint.sh [--format]     only the format
#
# Needs a configured build folder, build/. Exit status: 0 only if nothing was found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
'' | --format) ;;
*)
  echo "lint.sh: unknown argument '$1'; there is --format" >&2
  exit 2
  ;;
esac
for tool in clang-format run-clang-tidy; do
  command -v $tool >/dev/null || {
    echo "lint.sh: $tool is missing: ./scripts/setup.sh extra" >&2
    exit 1
  }
done
git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run --Werror
[ "${1:-}" = --format ] || run-clang-tidy -p build -quiet \
  "$PWD/(tensor|autograd|nn|optim|data|io|dist|train|examples|bench|tools)/.*\\.cpp\$"
echo "lint.sh: nothing found"
