#!/bin/sh
# compare.sh EXPECTED COMMAND…: fails unless the command succeeds and prints what EXPECTED holds, or
# anything at all when EXPECTED is empty.
expected=$1
shift
output=$("$@") || { status=$?; printf '%s\n' "$output"; exit $status; }
printf '%s\n' "$output"
[ -s "$expected" ] || exit 0
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
printf '%s\n' "$output" >"$scratch"
diff "$expected" "$scratch" >&2 || { echo "the document says otherwise (< document, > program)" >&2; exit 1; }
