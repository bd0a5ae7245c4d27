#!/usr/bin/env bash
# Runs mpirun so that Ctrl-C, SIGTERM and a lost terminal end the run with a checkpoint.
#
#   scripts/run_ranks.sh mpirun -np 2 build/bin/cifar_resnet …
#
# The script sends such a signal to the ranks, which write a checkpoint and end. mpirun itself would give
# them only a second or two, and a step of a large model takes longer. Therefore mpirun runs in a session
# of its own, where Ctrl-C does not reach it. A second signal ends the ranks at once.
#
# mpirun of Open MPI 4.1 may itself hang when ranks have ended within MPI_Init: it then waits in PMIx's
# server and ignores SIGTERM. The script kills an mpirun that still runs ten seconds after its last rank.
#
# Exit status: that of the run; 128 + signal if the run ended because of a signal.
set -u # but not -e: a trap must do all of its work, and without a terminal even its echo fails
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"

if [ $# -eq 0 ] || [[ $1 == -* ]]; then
  echo "run_ranks.sh: expected a command, such as mpirun, not '${1:-}'; --help describes it" >&2
  exit 2
fi

asked=0
declare -A told
# shellcheck disable=SC2317,SC2329 # called by the traps
stop() { # STATUS
  if [ "$asked" -eq 0 ]; then
    asked=$1
    echo "stopping with a checkpoint at the ranks' next common step; send the signal again to stop at once" >&2
  else
    pkill -KILL -P "$run"
    kill -KILL "$run" 2>/dev/null
  fi
}
# Sends SIGTERM to each rank once. It is called repeatedly, since mpirun may still be starting ranks.
tell_ranks() {
  local rank
  for rank in $(pgrep -P "$run"); do
    if [ -z "${told[$rank]:-}" ] && kill -TERM "$rank" 2>/dev/null; then told[$rank]=1; fi
  done
}

# Prints the states of mpirun's ranks, and of its daemons for ranks on other machines; Z: the process has ended.
ranks() { ps -o stat= --ppid "$run"; }
# Runs in the background until mpirun has ended.
# shellcheck disable=SC2317,SC2329
guard() {
  trap '' INT TERM HUP # ignore signals to the process group; the script kills the guard when mpirun has ended
  local without=0
  until ranks; do kill -0 "$run" && sleep 0.5 || return; done >/dev/null 2>&1 # mpirun may still be starting
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
disown # so that the shell does not report its end

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
[ $last -eq 127 ] || status=$last # 127: the status is already known from above
kill -KILL "$guard" 2>/dev/null
# mpirun of Open MPI 5 ends with a status of its own when ranks end one after the other.
if [ "$asked" -ne 0 ] && [ "$status" -ne 0 ]; then status=$asked; fi
exit "$status"
