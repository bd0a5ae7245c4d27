#!/usr/bin/env bash
# run.sh PROGRAM NAME FOLDER: runs a libFuzzer target for $RONDO_FUZZ_SECONDS (60). Its corpus stays in
# FOLDER/corpus/NAME, so the next run continues from there. An input that fails is written to
# FOLDER/findings/NAME-…, and PROGRAM FILE runs it again.
set -euo pipefail
program=$1 name=$2 folder=$3
mkdir -p "$folder/corpus/$name" "$folder/findings"
if [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi # some targets write files
words=$(dirname "$0")/targets/$name.dict
dictionary=()
if [ -e "$words" ]; then dictionary=("-dict=$words"); fi
exec "$program" "-max_total_time=${RONDO_FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=3072 -max_len=16384 \
  -print_final_stats=1 "-artifact_prefix=$folder/findings/$name-" "${dictionary[@]}" \
  "$folder/corpus/$name" "$folder/seeds/$name"
