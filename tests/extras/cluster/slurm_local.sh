#!/usr/bin/env bash
# slurm_local.sh ROOT BIN_DIR: does a job under Slurm survive what extras/cluster/slurm_local.sh does to it, and is
# nothing of its cluster left, even after an interruption? Status 77, with the reason, if this machine has no
# Slurm.
root=$1 bin=$2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work/tmp # the cluster's folder, which all of its processes name
mkdir "$TMPDIR"
# The job itself looks for Fashion-MNIST in $RONDO_DATA and where the package installs it. MPICH's ranks connect by
# another protocol than Open MPI's.
if ldd "$bin/cifar_resnet" | grep -q libmpich; then export LAUNCH="srun --mpi=pmi2 --kill-on-bad-exit=1"; fi

left() {
  local process
  for process in /proc/[0-9]*; do
    if [[ $(readlink "$process/cwd") == "$TMPDIR"/rondo-slurm* ]] || grep -qF "$TMPDIR/rondo-slurm" "$process/cmdline"; then
      echo "${process#/proc/}: $(tr '\0' ' ' <"$process/cmdline")"
    fi
  done 2>/dev/null
}
failures=0
nothing_is_left() { # CASE
  local found
  found=$(left; ls "$TMPDIR")
  if [ -n "$found" ]; then
    echo "$1: this is left behind: $found"
    failures=1
  fi
}

timeout 500 "$root/extras/cluster/slurm_local.sh" "$bin"
status=$?
if [ $status -eq 77 ]; then exit 77; fi
if [ $status -ne 0 ]; then
  echo "slurm_local.sh: exit status $status"
  failures=1
fi
nothing_is_left "after a run"

# Interrupts the first job, by Ctrl-C and by a signal that cannot be trapped. A shell starts background programs
# with SIGINT ignored, and bash cannot trap ignored signals; Ctrl-C goes to a whole process group.
start() {
  python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.setsid()
os.execvp(sys.argv[1], sys.argv[1:])' "$root/extras/cluster/slurm_local.sh" "$bin" >"$work/log" 2>&1 &
  pid=$!
  for _ in {1..600}; do
    compgen -G "$TMPDIR/rondo-slurm.*/straight/checkpoint.safetensors" >/dev/null && return
    sleep 0.1
  done
  echo "no checkpoint after a minute:"
  cat "$work/log"
  failures=1
}
start
kill -INT -- -$pid
wait $pid
status=$?
if [ $status -ne 130 ]; then
  echo "SIGINT: exit status $status, not 130"
  cat "$work/log"
  failures=1
fi
nothing_is_left "after SIGINT"

start
kill -KILL $pid
wait $pid 2>/dev/null
for _ in {1..200}; do
  [ -n "$(ls "$TMPDIR")" ] || break
  sleep 0.1
done
nothing_is_left "after SIGKILL"
exit $failures
