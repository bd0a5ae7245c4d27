#!/bin/bash
# failures.sh PART PROGRAM MPIRUN…: however ranks fail, the world must end soon, with a status other than 0, and
# give the reason in one sentence, once. PART is a case below. The cases mostly wait, so several can run at the
# same time.
part=$1 program=$2
shift 2
run_ranks=$(dirname "${BASH_SOURCE[0]}")/../../scripts/run_ranks.sh # ends an mpirun that hangs
status=0
# shellcheck source=tests/support/open_mpi.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/open_mpi.sh"

# expect RANKS HOW SENTENCE: exactly one line, or $least to $most lines, must be SENTENCE (a pattern). No line may
# contain $without.
expect() {
  local output code count
  output=$(timeout -k 20 60 "$run_ranks" "${@:4}" -np "$1" "$program" "$2" 2>&1)
  code=$?
  count=$(grep -cx -- "error: $3" <<<"$output")
  if [ "$code" -eq 0 ] || [ "$code" -eq 124 ] || [ "$count" -lt "${least:-1}" ] || [ "$count" -gt "${most:-1}" ] ||
    { [ -n "${without:-}" ] && grep -q -- "$without" <<<"$output"; }; then
    echo "$1 ranks, $2: status $code, $count times \"$3\" in:"
    echo "$output"
    status=1
  fi
}

# After a rank has died, Open MPI 4 lets the others run for a second, Open MPI 5 for a quarter of a second, and Hydra not at
# all. In a quarter of a second a busy machine may not run all of them.
open_mpi=$(open_mpi_version "$1") names_it=3
if [ "${open_mpi:-0}" -ge 5 ]; then names_it=1; fi

case $part in
two | three) # this many ranks: one fails, all fail, or they call different functions
  n=2
  [ "$part" = two ] || n=3
  last=$((n - 1))
  # Ranks that wait in a collective get the message and end by themselves: in shared memory, and over messages.
  without=MPI_ABORT expect $n one "rank $last: data/test.bin: no such file" "$@"
  without=MPI_ABORT expect $n told "rank $last: data/test.bin: no such file" "$@"
  expect $n missing "rank $last: data/test.bin: no such file" "$@"
  expect $n all "--model: unknown model resnet21" "$@"
  # Each rank of a machine notices it itself.
  most=$n expect $n mismatch "rank [0-9]: all_reduce 1 failed: rank [0-9] calls all_reduce 1 (.*, f32 \[1000\]) where rank [0-9] calls all_reduce 1 (.*, f32 \[1000\])" "$@"
  expect $n confused "rank $last has the group {0, 1} where rank 0 has a model" "$@"
  expect $n models "rank $last has another model than rank 0: parameter weight .*" "$@"
  ;;
waits) # ranks wait for one that has ended, hangs or never calls
  # Each rank reports it after its own five seconds, or when another rank tells it: in shared memory, and over messages.
  ending="has reached the end of its program"
  expect 2 early "rank 0: all_reduce [0-9]* failed: rank 1 $ending" "$@"
  least=2 most=2 expect 3 early_messages "rank [01]: all_reduce [0-9]* failed: rank 2 $ending" "$@"
  # All remaining ranks name the stopped rank, and no rank is blamed for passing the message on.
  RONDO_HEARTBEAT_TIMEOUT=3 least=3 most=3 expect 4 stopped "rank [0-2]: all_reduce [0-9]* failed: rank 3 has not been heard of for 3 s" "$@"
  expect 2 deadline "rank 0: all_reduce 1 gave up after 2 s of waiting for rank 1 to call it" "$@"
  if [ -n "$open_mpi" ]; then
    least=$names_it most=3 expect 4 killed "rank [0-2]: all_reduce [0-9]* failed: rank 3 (process [0-9]*) has ended" "$@"
    least=$names_it most=3 expect 4 killed_reading "rank [0-2]: all_reduce [0-9]* failed: rank 3 (process [0-9]*) has ended" "$@"
  fi
  ;;
start) # before MPI has started
  RONDO_MPI_TIMEOUT=2 expect 2 start "rank 0: MPI_Init has not returned for 2 s (RONDO_MPI_TIMEOUT); some rank has not started, or cannot be reached" "$@"
  RONDO_MPI_TIMEOUT=soon expect 1 all "RONDO_MPI_TIMEOUT is \"soon\", not a number of seconds from 0.1 to 1000000" "$@"
  RONDO_SOCKET_IFNAME=none0 expect 1 all "--model: unknown model resnet21" "$@"
  least=1 most=2 RONDO_SOCKET_IFNAME=none0 expect 2 all "RONDO_SOCKET_IFNAME is \"none0\", which is not a network interface of this machine .*" "$@"
  ;;
end) # while ranks end
  RONDO_MPI_TIMEOUT=12 expect 2 end "rank 0: MPI_Finalize has not returned for 12 s (RONDO_MPI_TIMEOUT); some rank has not called it" "$@"
  expect 1 all "--model: unknown model resnet21" "$@"
  least=1 most=2 expect 3 later "rank [12]: the loss of rank [12] is nan" "$@"
  if [ "${open_mpi:-0}" -ge 5 ]; then
    # It drops their last output, and names the rank itself. (Ubuntu 26.04's lacks the text, and prints its name.)
    output=$(timeout -k 20 60 "$run_ranks" "$@" -np 3 "$program" dies_at_end 2>&1) && status=1
    grep -q "process rank 2 with PID\|prun:proc-aborted" <<<"$output" || { echo "dies_at_end: $output" && status=1; }
  elif [ -n "$open_mpi" ]; then
    # Seldom mpirun lets the other ranks finish when it sees the death, and they have nothing to say.
    said=0
    for _ in 1 2 3; do
      output=$(timeout -k 20 60 "$run_ranks" "$@" -np 3 "$program" dies_at_end 2>&1) && break
      said=$(grep -c "rank [01]: MPI_Finalize does not return: rank 2 (process [0-9]*) has ended" <<<"$output") && break
    done
    [ "$said" = 2 ] || { echo "dies_at_end: $output" && status=1; }
  fi
  # A file that a rank writes in the background must be complete before the job ends.
  CHECKPOINT=$(mktemp)
  export CHECKPOINT
  without=MPI_ABORT expect 3 writing "rank 0: the loss of rank 0 is nan" "$@"
  if [ "$(cat "$CHECKPOINT")" != whole ]; then
    echo "writing: the checkpoint is lost"
    status=1
  fi
  rm "$CHECKPOINT"
  ;;
*)
  echo "failures.sh: unknown part $part"
  exit 2
  ;;
esac
exit $status
