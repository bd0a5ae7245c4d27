#!/bin/sh
# check.sh LIBRARIES PROGRAM [shared]: were the libraries in the folder LIBRARIES and the program built with the
# flags of cmake/flags.cmake?
# Checks canaries, checked calls of the C library, and that the program (with `shared` each library, too) binds its
# addresses at the start and makes them read-only.
set -eu
status=0
complain() {
  echo "$1"
  status=1
}
# sealed FILE
sealed() {
  readelf -dW "$1" | grep -Eq 'BIND_NOW|FLAGS_1.*NOW' || complain "$1 binds addresses when they are first used (-z now is missing)"
  readelf -lW "$1" | grep -q GNU_RELRO || complain "$1 does not seal its addresses (-z relro is missing)"
}
# calls FILE PATTERN
calls() { nm -u "$1" | grep -Eq "$2"; }
sealed "$2"
calls "$2" '__stack_chk_fail' || complain "$2 has no canaries (-fstack-protector-strong is missing)"
if [ "${3:-}" = shared ]; then
  for library in "$1"/librondo_*.so; do sealed "$library"; done
  exit $status
fi
for library in "$1"/librondo_*.a; do
  case $library in */librondo_test*) continue ;; esac # tests are not optimised
  calls "$library" '__stack_chk_fail' || complain "$library has no canaries (-fstack-protector-strong is missing)"
done
folders="data dist"
# clang replaces checked calls in the others by plain ones, since it can prove that they are in bounds.
if ! readelf -p .comment "$1/librondo_data.a" | grep -q 'clang version'; then folders="$folders tensor io"; fi
for folder in $folders; do
  calls "$1/librondo_$folder.a" '__[a-z]+_chk$' || complain "librondo_$folder.a calls nothing that is checked (_FORTIFY_SOURCE is missing)"
done
exit $status
