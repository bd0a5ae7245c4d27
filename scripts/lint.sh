#!/usr/bin/env bash
# Checks the sources with english.sh (suspect language), clang-format (.clang-format) and clang-tidy (.clang-tidy;
# ten minutes on two cores).
#
#   scripts/lint.sh [--format]     with --format only clang-format
#
# It configures build-lint/, where each source is compiled alone. Exit status: 0 only if nothing was found.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
'' | --format) ;;
*)
  echo "lint.sh: unknown argument '$1'; the only flag is --format" >&2
  exit 2
  ;;
esac
for tool in clang-format run-clang-tidy; do
  command -v $tool >/dev/null || {
    echo "lint.sh: $tool is missing: ./scripts/setup.sh extra" >&2
    exit 1
  }
done
base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)
./scripts/english.sh "$base" # suspects, not errors
git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run --Werror
if [ "${1:-}" != --format ]; then
  cmake --preset debug -B build-lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
  ninja -C build-lint -t targets all | sed -n 's/^\([a-z]*\.pb\.h\):.*/\1/p' | xargs -r ninja -C build-lint >/dev/null
  run-clang-tidy -p build-lint -quiet \
    "$PWD/(tensor|autograd|nn|optim|data|io|dist|train|extras|examples|bench)/.*\\.cpp\$"
fi
echo "lint.sh: nothing found"
