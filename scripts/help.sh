#!/usr/bin/env bash
# Source this file at the beginning of a script: with --help, the script prints the comment at its head and ends.
if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0"
  exit 0
fi

# at_most N ARGUMENT…: refuses flags, and more than N arguments.
at_most() {
  local most=$1 argument
  shift
  for argument; do
    if [[ $argument == -* ]] || [ $((most--)) -le 0 ]; then
      echo "$(basename "$0"): unknown argument '$argument'; --help lists what it takes" >&2
      exit 2
    fi
  done
}
