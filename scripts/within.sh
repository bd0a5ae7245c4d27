#!/usr/bin/env bash
# To be sourced: for scripts that wait for what others do.

# within SECONDS COMMAND…: tries until it succeeds.
within() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.1
  done
}
