#!/bin/bash
# host_program.sh PROGRAM MPIRUN…: a program that uses MPI itself gives rondo a communicator of some ranks. They
# train, and each mistake of the program gives one error message.
program=$1
shift
run_ranks=$(dirname "${BASH_SOURCE[0]}")/../../scripts/run_ranks.sh # ends an mpirun that hangs
status=0
# shellcheck source=tests/support/open_mpi.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/open_mpi.sh"
export OMPI_MCA_btl_tcp_if_include=lo # or Open MPI 5 warns (choose_addresses in dist/transports/mpi/mpi_start.cpp)

# run RANKS LEVEL HOW MPIRUN…: prints the output, and sets `code` to the status.
run() {
  output=$(timeout -k 20 60 "$run_ranks" "${@:4}" -np "$1" "$program" "$2" "$3" 2>&1)
  code=$?
}
complain() {
  echo "$1: status $code:"
  echo "$output"
  status=1
}
# trains RANKS LEVEL MPIRUN…
trains() {
  run "$1" "$2" train "${@:3}"
  [ $code -eq 0 ] && [ "$output" = "the loss has fallen" ] || complain "$1 ranks, $2"
}
# fails RANKS LEVEL HOW SENTENCE MPIRUN…: one line must be SENTENCE (a pattern).
fails() {
  run "$1" "$2" "$3" "${@:5}"
  [ $code -ne 0 ] && [ $code -ne 124 ] && grep -qx -- "error: $4" <<<"$output" || complain "$1 ranks, $2 $3, no \"$4\""
}

trains 2 multiple "$@"
trains 3 funneled "$@"
trains 4 serialized "$@"
trains 4 multiple "$@"
run 4 multiple halves "$@"
[ $code -eq 0 ] && [ "$output" = "two worlds" ] || complain "4 ranks, halves"
# Ranks are those of the communicator: its rank 0 is the launcher's last rank.
fails 4 funneled fails "rank 0 \[3 of MPI_COMM_WORLD\]: train.bin: no such file" "$@"
RONDO_MPI_TIMEOUT=2 fails 3 multiple late "rank 2: MPI_Comm_dup of mpi_comm has not returned for 2 s (RONDO_MPI_TIMEOUT); some rank of mpi_comm has not called dist::init" "$@"
if [ -n "$(open_mpi_version "$1")" ]; then # Hydra gives the other ranks no time
  fails 4 multiple killed "rank [12]: all_reduce [0-9]* .*failed: rank 0 \[3 of MPI_COMM_WORLD\] (process [0-9]*) has ended" "$@"
fi
fails 2 funneled null "rank [01]: dist::init: mpi_comm is MPI_COMM_NULL; only ranks that are in the communicator call dist::init" "$@"
fails 2 funneled inter "rank [01]: dist::init: mpi_comm is an intercommunicator; give an intracommunicator, which MPI_Intercomm_merge makes of it" "$@"
fails 1 funneled type "dist::init: mpi_comm is not an MPI_Comm of the MPI that rondo was built with" "$@"
fails 1 funneled self "dist::init: mpi_comm was given, but the backend self is a world of one" "$@"
fails 1 funneled finalized "MPI was finalized earlier in this process and cannot be restarted" "$@"
fails 1 none train "dist::init: mpi_comm was given, but MPI is not initialized; call MPI_Init_thread first" "$@"
fails 2 single train "rank 1: dist::init: MPI was initialized with MPI_THREAD_SINGLE, but rondo starts threads; call MPI_Init_thread with MPI_THREAD_FUNNELED or a higher level" "$@"
exit $status
