# `kill -9` of a rank while the ranks start: before MPI_Init, in it (where only mpirun notices), while they connect.
use_few_images
[ -n "$(open_mpi_version "${mpirun[0]}")" ] || exit 77 # Hydra ends all of them at once
printf '#!/bin/sh\necho $$ >"process.$OMPI_COMM_WORLD_RANK"\nexec "$@" 2>>"said.$OMPI_COMM_WORLD_RANK"\n' >to_file && chmod +x to_file
slowest_end=0
for round in $(seq "${ROUNDS:-4}"); do
  rm -f said.* process.*
  timeout -k 20 60 "$scripts/run_ranks.sh" "${mpirun[@]}" -np 4 ./to_file "${resnet[@]}" --epochs 1000 >"$log" 2>&1 &
  pid=$!
  victim=$((RANDOM % 4))
  until [ -s process.$victim ] || ! kill -0 $pid 2>/dev/null; do sleep 0.005; done
  after=0.$(printf '%03d' $((RANDOM % 600)))
  sleep "$after"
  process=$(cat process.$victim)
  sockets=$(find "/proc/$process/fd" -lname 'socket:*' | wc -l) # the first is opened in MPI_Init
  kill -KILL "$process"
  killed=$(date +%s%N)
  wait $pid
  status=$?
  end=$((($(date +%s%N) - killed) / 1000000))
  [ $end -le $slowest_end ] || slowest_end=$end
  [ $status -ne 0 ] && [ $status -ne 124 ] || fail "round $round: status $status"
  # While Open MPI's mpirun is still starting processes, it counts a process that ends without naming it; if the
  # process ends before mpirun has answered its connection, mpirun hangs and run_ranks.sh kills it before it names.
  # (Ubuntu 26.04's mpirun lacks its texts, and prints the name of the one that has the rank's number.)
  grep -q "rank $victim (process\|process rank $victim with PID\|prun:proc-aborted" said.* "$log" ||
    { [ "$sockets" -eq 0 ] && grep -q "1 process returned" "$log"; } ||
    { grep -q "PMIX ERROR: UNREACHABLE" "$log" && grep -q "1 process returned" "$log"; } ||
    fail "round $round: nobody says that rank $victim ended $after s after its start, but $(cat said.* "$log")"
done
echo "after at most $slowest_end ms over"
