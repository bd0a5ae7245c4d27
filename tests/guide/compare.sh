#!/bin/sh
# compare.sh EXPECTED COMMAND…: fails unless the command succeeds and prints the contents of EXPECTED. If EXPECTED
# is empty, any output is accepted.
expected=$1
shift
output=$("$@") || { status=$?; printf '%s\n' "$output"; exit $status; }
printf '%s\n' "$output"
[ -s "$expected" ] || exit 0
scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
printf '%s\n' "$output" >"$scratch"
diff "$expected" "$scratch" >&2 || { echo "the document says otherwise (< document, > program)" >&2; exit 1; }
