#!/usr/bin/env bash
# Source this file in scripts that wait for other processes.

# within SECONDS COMMAND…: tries until it succeeds.
within() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.1
  done
}
