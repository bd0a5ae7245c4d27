#!/usr/bin/env bash
# Prints the time of a build: core seconds of each part, and the slowest steps.
#
#   scripts/build_times.sh [FOLDER] [HOW-MANY]     FOLDER is build/, and HOW-MANY is 20, unless given
#
# It reads Ninja's log, which has the time of the last run of every step. Build in a new folder and on an idle machine,
# since steps that share their cores with other programs take longer.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
at_most 2 "$@"
folder=${1:-build} count=${2:-20}
[ -e "$folder/.ninja_log" ] || {
  echo "build_times.sh: $folder/.ninja_log does not exist; build with Ninja first" >&2
  exit 2
}
awk -F'\t' '
  /^#/ || $4 ~ /^\// || $4 ~ /\.pb\.(h|cc)$/ { next }
  { took[$4] = ($2 - $1) / 1000 }
  END { for (output in took) printf "%.2f %s\n", took[output], output }' "$folder/.ninja_log" | sort -rn |
  awk -v count="$count" '
  { part = "other" }
  $2 ~ /\.gch$/ { part = "precompiled headers" }
  $2 ~ /\.cu\.o$/ { part = "CUDA kernels" }
  $2 ~ /^CMakeFiles\/rondo_[a-z0-9_]*\.dir/ && part == "other" {
    part = $2
    sub(/^CMakeFiles\/rondo_/, "library: ", part)
    sub(/\.dir.*/, "", part)
  }
  $2 ~ /^(tests|examples|extras|bench)\// && part == "other" { part = $2; sub(/\/.*/, "", part) }
  $2 ~ /^(bin|lib)\// { part = "linking" }
  { seconds[part] += $1; steps[part]++; all += $1; if (NR <= count) slowest[NR] = $0 }
  END {
    for (part in seconds) printf "%7.1f s %5d steps  %s\n", seconds[part], steps[part], part | "sort -rn"
    close("sort -rn")
    printf "%7.1f s  all; the slowest:\n", all
    for (i = 1; i <= count && i in slowest; ++i) { split(slowest[i], at, " "); printf "%7.1f s  %s\n", at[1], at[2] }
  }'
