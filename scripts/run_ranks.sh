#!/usr/bin/env bash
# Runs mpirun so that Ctrl-C, SIGTERM and a lost terminal end the run well.
#
#   scripts/run_ranks.sh mpirun -np 2 build/bin/cifar_resnet …
#
# Such a signal goes to the ranks, which write a checkpoint and end: mpirun, asked to stop, gives them
# a second or two, which a step of a large model takes longer than. It therefore runs in a session of
# its own, where Ctrl-C does not reach it. A second signal ends the ranks at once.
#
# mpirun of Open MPI 4.1 may itself hang when ranks have ended within MPI_Init: in PMIx's server, deaf to
# SIGTERM. One that is still there ten seconds after its last rank is killed.
#
# Exit status: that of the run; 128 + signal where it ended because it was asked to.
set -u # but not -e: a trap has to do all of its work, and without a terminal even its echo fails

asked=0
declare -A told
# shellcheck disable=SC2317 # called by the traps
stop() { # STATUS
  if [ "$asked" -eq 0 ]; then
    asked=$1
    echo "stopping when the ranks next meet, with a checkpoint; once more to stop at once" >&2
  else
    pkill -KILL -P "$run"
    kill -KILL "$run" 2>/dev/null
  fi
}
# Each rank once. mpirun may be just starting, and ranks still to come.
tell_ranks() {
  local rank
  for rank in $(pgrep -P "$run"); do
    if [ -z "${told[$rank]:-}" ] && kill -TERM "$rank" 2>/dev/null; then told[$rank]=1; fi
  done
}

# States of mpirun's ranks, and of the daemons through which it has ranks elsewhere; Z: it has ended.
ranks() { ps -o stat= --ppid "$run"; }
# In the background until mpirun has ended.
# shellcheck disable=SC2317
guard() {
  trap '' INT TERM HUP # of the whole process group; it is killed when mpirun has ended
  local without=0
  until ranks; do kill -0 "$run" && sleep 0.5 || return; done >/dev/null 2>&1 # it may be just starting
  while [ "$without" -lt 20 ]; do
    kill -0 "$run" && sleep 0.5 || return
    if ranks | grep -qv '^Z'; then without=0; else without=$((without + 1)); fi
  done >/dev/null 2>&1
  echo "${0##*/}: mpirun is still there ten seconds after its last rank, and is killed" >&2
  kill -KILL "$run"
}

run=
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP
setsid "$@" &
run=$!
guard &
guard=$!
disown # the shell need not say how it ends

status=127
while kill -0 "$run" 2>/dev/null; do
  if [ "$asked" -eq 0 ]; then
    wait "$run" # until the run ends, or a signal comes
    status=$?
  else
    tell_ranks
    sleep 0.1
  fi
done
wait "$run" 2>/dev/null
last=$?
[ $last -eq 127 ] || status=$last # 127: it was told above
kill -KILL "$guard" 2>/dev/null
# mpirun of Open MPI 5 ends with a status of its own when ranks end one after the other.
if [ "$asked" -ne 0 ] && [ "$status" -ne 0 ]; then status=$asked; fi
exit "$status"
