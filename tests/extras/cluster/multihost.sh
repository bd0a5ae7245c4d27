#!/usr/bin/env bash
# multihost.sh BIN_DIR ROOT: do ranks on several hosts, as extras/cluster/multihost.sh makes them, work together
# over the network alone, does every kind of ending end the run, and is nothing left of it?
#
# Exit status: 77 if this machine cannot simulate several hosts.
set -uo pipefail
bin=$1 run=$2/extras/cluster/multihost.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
log=$work/log

fail() {
  echo "FAILED: $*"
  echo "---- output:"
  tail -n 40 "$log"
  exit 1
}
# All processes of a run have this in their environment.
mark="RONDO_TEST_MARK=$work"
marked() { grep -lzsxF "$mark" /proc/[0-9]*/environ; }
# What a run could leave on the machine besides processes. Other programs may add to it meanwhile, but not under
# the names of multihost.sh.
left_behind() {
  ip -o link 2>/dev/null | grep -oE ' (switch|port[0-9]+)[:@]'
  ls -d /tmp/ompi.host[0-9]* /tmp/ompi.head* /dev/shm/*host[1-4]* /dev/shm/rsh 2>/dev/null
}
before=$(left_behind)
# gone CASE: waits, because the kernel ends processes with a delay. It looks three times: while a process becomes another
# program, its environment cannot be read.
gone() {
  local try none=0
  for ((try = 0; try < 200 && none < 3; ++try)); do
    if marked >/dev/null; then none=0; else ((++none)); fi
    sleep 0.05
  done
  [ $none -eq 3 ] || fail "$1: something still runs: $(marked | tr -dc '0-9\n' | xargs -n 1 ps -o pid=,etime=,args= -p)"
  [ "$(left_behind)" = "$before" ] || fail "$1: left behind: $(left_behind)"
}
# hosts SECONDS ARGUMENT…: runs in the foreground, with its output in the log.
hosts() { env "$mark" timeout --foreground -k 5 "$1" "$run" "${@:2}" >"$log" 2>&1; }
# rank_is N: the process of rank N of the current run, once all ranks exist.
rank_is() {
  local try process
  for ((try = 0; try < 400; ++try)); do
    for process in $(pgrep -f -- "$work/never"); do
      if tr '\0' '\n' <"/proc/$process/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" &&
        [[ $(cat "/proc/$process/comm") =~ ^(all_reduce|ddp_step)$ ]]; then
        echo "$process"
        return
      fi
    done 2>/dev/null
    sleep 0.05
  done
}

if ldd "$bin/all_reduce" | grep -q libmpich; then
  echo "multihost.sh starts ranks with Open MPI's mpirun; this build is for MPICH"
  exit 77
fi

# ---- Wrong arguments. These errors need no special machine.
for words in "--hosts 5 -- true" "--hosts 1 -- true" "--rate fast -- true" "--delay 1 -- true" "--loss 200 -- true" \
  "--nosuch -- true" "--hosts" "--hosts 2"; do
  # shellcheck disable=SC2086 # several words
  "$run" $words >"$log" 2>&1
  status=$?
  [ $status -eq 2 ] || fail "$words: exit status $status, not 2"
done

# ---- Four hosts have four names, and two runs can be active at the same time. (mpirun of Open MPI 5.0.7 may hang
# if processes end while it still starts others: half a second.)
hosts 30 --hosts 4 -- sh -c 'sleep 0.5; hostname'
status=$?
[ $status -ne 77 ] || { cat "$log" && exit 77; }
[ $status -eq 0 ] || fail "four hosts: exit status $status"
[ "$(grep '^host' "$log" | sort | xargs)" = "host1 host2 host3 host4" ] || fail "four hosts have other names"
for n in 2 3; do
  env "$mark" timeout 30 "$run" --hosts $n --ranks-per-host 2 -- sh -c 'sleep 0.5; hostname' >side.$n 2>&1 &
  sides[n]=$!
done
for n in 2 3; do
  wait "${sides[n]}" || { status=$? && cp side.$n "$log" && fail "of two runs side by side, one ends with $status"; }
  [ "$(grep -c '^host' side.$n)" -eq $((2 * n)) ] || { cp side.$n "$log" && fail "side by side: not all ranks have run"; }
done
gone "side by side"

# ---- The script's status is that of the run, at once, even if another rank would continue.
# shellcheck disable=SC2016 # the ranks' variables
hosts 20 -- sh -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 5; exec sleep 60'
status=$?
[ $status -eq 5 ] || fail "a rank on another host ends with 5: exit status $status"
gone "an error"

# ---- A link has the requested rate: each of two ranks sends 200 kB at least, which takes 0.16 s at 10 Mbit/s.
hosts 40 --rate 10mbit -- "$bin/all_reduce" --min-bytes 200000 --max-bytes 200000 --repeat 1 --json slow.json
status=$?
if [ $status -eq 77 ]; then
  echo "not looked at: $(cat "$log")"
else
  [ $status -eq 0 ] || fail "a slow link: exit status $status"
  [ "$(sed -n 's/^ *"seconds": //p' slow.json | sort -g | head -n 1 | awk '{ print ($1 > 0.12) }')" = 1 ] ||
    fail "200 kB over 10 Mbit/s took less than 0.12 s: $(cat slow.json)"
fi

# ---- Ranks on two hosts share no memory, and all collectives work without it.
hosts 20 -- "$bin/test_mpi" --file=mpi/collectives --gtest_filter=Mpi.InMemory && fail "ranks on two hosts share memory"
grep -q "the ranks share none" "$log" || fail "nobody says that the ranks share no memory"
hosts 60 -- "$bin/test_mpi" --file=mpi/collectives '--gtest_filter=-*InMemory*' || fail "collectives of two hosts: exit status $?"
grep -q PASSED "$log" || fail "no test has run"
hosts 30 --hosts 3 -- "$bin/all_reduce" --min-bytes 4 --max-bytes 300000 --repeat 2 --json rows.json ||
  fail "all-reduces of three hosts: exit status $?"
grep -q '"world_size": 3' rows.json || fail "three hosts are not three ranks"

# ---- kill -9 of a rank ends the run on all hosts; so do signals to the script, even SIGKILL.
endless=("$bin/all_reduce" --min-bytes 64 --max-bytes 64 --repeat 100000000 --json "$work/never")
for case in rank:9: INT:130:10 TERM:143:10 KILL:137:; do
  IFS=: read -r what wanted _ <<<"$case"
  # A shell starts background programs with SIGINT ignored, and bash cannot trap ignored signals.
  env "$mark" python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])' \
    "$run" --hosts 3 -- "${endless[@]}" >"$log" 2>&1 &
  pid=$!
  victim=$(rank_is 2)
  [ -n "$victim" ] || fail "$what: the ranks do not start"
  sleep 0.5 # see above: while mpirun of Open MPI 5.0.7 still starts processes, it may not notice that one ends
  if [ "$what" = rank ]; then kill -KILL "$victim"; else kill "-$what" $pid; fi
  for ((try = 0; try < 300; ++try)); do
    kill -0 $pid 2>/dev/null || break
    sleep 0.05
  done
  ! kill -0 $pid 2>/dev/null || { kill -KILL $pid && fail "$what: runs on after 15 s"; }
  wait $pid 2>/dev/null
  status=$?
  if [ "$what" = rank ]; then
    [ $status -ne 0 ] || fail "a killed rank: the run reports success"
  else
    [ $status -eq "$wanted" ] || fail "SIG$what: exit status $status, not $wanted"
  fi
  gone "$what"
done

# ---- Ranks on the other hosts name a rank that dies or is stopped, long before their deadline. The program must
# never wait inside MPI: all_reduce calls MPI_Allreduce itself, which nothing interrupts. mpirun forwards no output
# for a second after a death, so the ranks write to their own files.
# shellcheck disable=SC2016 # the rank's variable
printf '#!/bin/sh\nexec "$@" 2>>"said.$OMPI_COMM_WORLD_RANK"\n' >to_file && chmod +x to_file
now() { date +%s%N; }
for case in "KILL:rank 2 (process [0-9]* on host3) has ended" "STOP:rank 2 on host3 has not been heard of for 3 s"; do
  IFS=: read -r signal sentence <<<"$case"
  rm -f said.*
  env "$mark" RONDO_HEARTBEAT_TIMEOUT=3 "$run" --hosts 3 --mpi "-x RONDO_HEARTBEAT_TIMEOUT" -- \
    ./to_file "$bin/ddp_step" --model mlp --batch 96 --seconds 100000 --json "$work/never" >"$log" 2>&1 &
  pid=$!
  victim=$(rank_is 2)
  for ((try = 0; try < 1200; ++try)); do
    ! grep -q "measuring" "$log" || break
    sleep 0.05
  done
    begin=$(now) said=
  kill "-$signal" "$victim" || fail "SIG$signal: the ranks do not start"
  for ((try = 0; try < 1200; ++try)); do
    if [ -z "$said" ] && cat said.* 2>/dev/null | grep -q "failed: $sentence"; then said=$(now); fi
    kill -0 $pid 2>/dev/null || break
    sleep 0.02
  done
  end=$(now)
  ! kill -0 $pid 2>/dev/null || { cat said.* >>"$log" && kill -KILL $pid && fail "SIG$signal: runs on after 24 s"; }
  wait $pid && fail "SIG$signal: the run reports success"
  cat said.* >>"$log"
  # mpirun may notice the death first, and then ends the other ranks before they can report it.
  [ -n "$said" ] || [ "$signal" = KILL ] || fail "SIG$signal: nobody says that rank 2 is silent"
  if [ -n "$said" ]; then said="after $(((said - begin) / 1000000)) ms"; else said=never; fi
  echo "SIG$signal: said $said, over after $(((end - begin) / 1000000)) ms"
  gone "SIG$signal"
done
# ---- A rank that does not reach MPI_Init ends the run at the deadline.
if [ -e "$bin/failing_ranks" ]; then
  env "$mark" RONDO_MPI_TIMEOUT=4 timeout 60 "$run" --hosts 3 --mpi "-x RONDO_MPI_TIMEOUT" -- "$bin/failing_ranks" start >"$log" 2>&1
  status=$?
  case $status in 0 | 124) fail "a rank does not start: exit status $status" ;; esac
  grep -qx "error: rank [01]: MPI_Init has not returned for 4 s (RONDO_MPI_TIMEOUT); some rank has not started, or cannot be reached" "$log" ||
    fail "nobody says that a rank has not started"
  gone "a rank does not start"
fi
echo passed
