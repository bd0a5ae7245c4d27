#!/usr/bin/env bash
# kubernetes_local.sh ROOT BIN_DIR: does a job in pods survive what extras/cluster/kubernetes_local.sh does to it,
# and is nothing of its cluster left after an interruption? Status 77, with the reason, if this machine cannot
# simulate a cluster.
root=$1 bin=$2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failures=0

"$root/extras/cluster/kubernetes_local.sh" "$bin/nowhere" >"$work/log" 2>&1
status=$?
if [ $status -ne 2 ]; then
  echo "a folder without programs: exit status $status, not 2"
  failures=1
fi

timeout 500 "$root/extras/cluster/kubernetes_local.sh" "$bin"
status=$?
if [ $status -eq 77 ]; then exit 77; fi
if [ $status -ne 0 ]; then
  echo "kubernetes_local.sh: exit status $status"
  failures=1
fi

# Interrupts the first job, by Ctrl-C and by a signal that cannot be trapped. A shell starts background programs
# with SIGINT ignored, and bash cannot trap ignored signals; Ctrl-C goes to a whole process group.
descendants() { # PROCESS
  local child
  for child in $(pgrep -P "$1"); do
    echo "$child"
    descendants "$child"
  done
}
for case in INT:130 KILL:137; do
  signal=${case%:*}
  python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.setsid()
os.execvp(sys.argv[1], sys.argv[1:])' "$root/extras/cluster/kubernetes_local.sh" "$bin" >"$work/log" 2>&1 &
  pid=$!
  ranks=
  for _ in {1..600}; do
    all=$(descendants $pid)
    ranks=$(for process in $all; do cat "/proc/$process/comm"; done 2>/dev/null | grep -cx cifar_resnet)
    [ "$ranks" -lt 4 ] || break
    sleep 0.1
  done
  if [ "$ranks" -lt 4 ]; then
    echo "SIG$signal: no four ranks after a minute:"
    cat "$work/log"
    failures=1
  fi
  if [ "$signal" = INT ]; then kill -INT -- -$pid; else kill -KILL $pid; fi
  wait $pid 2>/dev/null
  status=$?
  if [ $status -ne "${case#*:}" ]; then
    echo "SIG$signal: exit status $status, not ${case#*:}"
    cat "$work/log"
    failures=1
  fi
  left=
  for _ in {1..100}; do
    left=$(for process in $all; do [ ! -e "/proc/$process" ] || tr '\0' ' ' <"/proc/$process/cmdline"; done 2>/dev/null)
    [ -n "$left" ] || break
    sleep 0.1
  done
  if [ -n "$left" ]; then
    echo "SIG$signal: still runs: $left"
    failures=1
  fi
done
exit $failures
