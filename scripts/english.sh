#!/usr/bin/env bash
# english.sh [BASE]: lines of prose (comments, documents, strings) that read oddly; CONTRIBUTING.md has the rules.
# With BASE only lines that the change since BASE adds. Prints FILE:LINE: TEXT, then a count. Status 0 always.
set -uo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
at_most 1 "$@"
pattern='(^|[.;:] |// ?|/// ?|# )(Who|Whoever|Of (who|what|which)|By what|For what|What (is|was|has|comes|lies|stands|they|cannot))\b|\b(is|are|was|be) (no|none) ([a-z]|$)|\b(is|are|was) none\b|\bbut for\b|\bbeside\b|\bwith .{1,12} neither\b|\bgoes? by\b|\bstands? in\b|\bby way of\b|\bany more\b|\bto the same bits\b|\bis all one\b|\bthat are none\b|\bthan ever after\b|\bhas come to\b|\bwhat whoever\b|\bby himself\b|\bto be had\b'
files=('*.h' '*.cpp' '*.cu' '*.cuh' '*.md' '*.sh' '*.py' '*.cmake' 'CMakeLists.txt')
if [ $# -gt 0 ]; then
  git diff -U0 "$1" -- "${files[@]}" | awk '/^\+\+\+ /{f=substr($2,3)} /^@@/{split($3,a,","); n=substr(a[1],2)-1} /^\+[^+]/{n++; print f ":" n ": " substr($0,2)}'
else
  git grep -nE '' -- "${files[@]}" | grep -E '//|"|\.md:|^[^:]*\.(sh|py):[0-9]+:[[:space:]]*#' | sed 's/^\([^:]*:[0-9]*\):/\1: /'
fi | grep -E "$pattern" | awk '{ print } END { print NR " suspect lines" }'
