#!/usr/bin/env bash
# run_ranks.sh ROOT: does scripts/run_ranks.sh stop the ranks, whenever and however it is interrupted, and report
# how the run ended? A shell with two children replaces mpirun.
run=$1/scripts/run_ranks.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

# Two ranks that create a mark and end with 143 on SIGTERM; mpirun ends as its ranks do.
cat >rank.sh <<'END'
trap 'touch stopped.$1; exit 143' TERM
touch started.$1
for ((i = 0; i < 100; ++i)); do sleep 0.1; done
touch ended.$1
END
cat >mpirun.sh <<'END'
touch launched
sleep "${1:-0}" # the time that mpirun needs to start the ranks
bash rank.sh 0 & first=$!
bash rank.sh 1 & second=$!
wait $first; status=$?
wait $second
exit $status
END

failures=0
# expect CASE STATUS WANTED: checks the status, that both ranks were stopped, and that none is left. (A rank that has not
# come to its trap yet ends at once.)
expect() {
  [ "$2" -eq "$3" ] || { echo "$1: exit status $2, not $3"; failures=1; }
  for rank in 0 1; do
    [ -e stopped.$rank ] || [ ! -e started.$rank ] || { echo "$1: rank $rank was not asked to stop"; failures=1; }
    [ ! -e ended.$rank ] || { echo "$1: rank $rank ran on"; failures=1; }
  done
  rm -f launched started.* stopped.* ended.*
}
until_started() { until [ -e started.0 ] && [ -e started.1 ]; do sleep 0.02; done; }

# A shell starts background programs with SIGINT ignored, and bash cannot trap ignored signals.
start() { python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])' "$run" bash mpirun.sh "$@" & pid=$!; }

for case in INT:130 TERM:143 HUP:129; do
  start
  until_started
  kill "-${case%:*}" $pid
  wait $pid
  expect "SIG${case%:*}" $? "${case#*:}"
done

start 0.5 # interrupted before there are ranks
until [ -e launched ]; do sleep 0.02; done
kill -INT $pid
wait $pid
expect "an early SIGINT" $? 130

# A lost terminal: nobody reads the script's output.
{ start; until_started; kill -HUP $pid; wait $pid; echo $? >status; } 2>&1 | true
expect "a lost terminal" "$(cat status)" 129

# A second signal does not wait for slow ranks.
sed -i 's/^trap.*/trap "" TERM/' rank.sh
start
until_started
kill -INT $pid
sleep 0.3
kill -INT $pid
wait $pid
status=$?
[ $status -eq 130 ] || { echo "a second SIGINT: exit status $status, not 130"; failures=1; }
pgrep -f "$work" >/dev/null && { echo "a second SIGINT: something still runs"; failures=1; }

# mpirun hangs after its ranks have ended, and ignores SIGTERM.
cat >hangs.py <<'END'
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
rank = subprocess.Popen(["sleep", "0.2"])
signal.pause() # and leaves the rank a zombie
END
output=$(timeout -k 5 60 "$run" python3 hangs.py 2>&1)
status=$?
[ $status -eq 137 ] || { echo "mpirun hangs: exit status $status, not 137"; failures=1; }
grep -q "mpirun is still there ten seconds after its last rank, and is killed" <<<"$output" || {
  echo "mpirun hangs: $output"
  failures=1
}
pgrep -f "hangs.py" >/dev/null && { echo "mpirun hangs: and still does"; failures=1; }

# If a run ends by itself, the script's status is that of the run, however quickly it ends.
for status in 0 3; do
  for ((i = 0; i < 50; ++i)); do
    "$run" bash -c "exit $status"
    got=$?
    [ $got -eq $status ] || { echo "a run that ends with $status: exit status $got"; failures=1; }
  done
done
exit $failures
