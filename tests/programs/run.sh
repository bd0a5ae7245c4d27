#!/usr/bin/env bash
# Runs the programs as a user would, on Fashion-MNIST's first images, and checks their output files.
#
# run.sh BIN_DIR CASE MPIRUN…      CASE: a file of cases/, or another case that its first lines name; MPIRUN: the
#                                  command before -np
set -uo pipefail
bin=$(cd "$1" && pwd) case=$2
shift 2
mpirun=("$@")
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts" && pwd)
cases=$(cd "$(dirname "${BASH_SOURCE[0]}")/cases" && pwd)
goldens=$(cd "$(dirname "${BASH_SOURCE[0]}")/../golden" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
log=$work/log

fail() {
  echo "FAILED: $*"
  echo "---- output:"
  tail -n 40 "$log"
  exit 1
}
# field NAME FILE: a number or string from the JSON that --json wrote.
field() { sed -n 's/^ *"'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\1/p' "$2"; }
# succeeds COMMAND…
succeeds() { timeout -k 10 280 "$@" >"$log" 2>&1 || fail "status $? from: $*"; }
# fails_saying TEXT COMMAND…: COMMAND must end by itself, with a status other than 0, and print TEXT.
fails_saying() {
  local text=$1 status=0
  shift
  timeout -k 10 120 "$@" >"$log" 2>&1 || status=$?
  [ $status -ne 0 ] || fail "no error from: $*"
  [ $status -ne 124 ] && [ $status -ne 137 ] || fail "still running after two minutes: $*"
  grep -qF -- "$text" "$log" || fail "the error does not say \"$text\""
}

# process_of RANK MPIRUN_PID: the process of a rank: a child of mpirun, or of MPICH's proxy, which is a child of
# mpirun.
process_of() {
  local process
  for process in $(pgrep -P "$2") $(pgrep -P "$(pgrep -d, -P "$2")"); do
    tr '\0' '\n' <"/proc/$process/environ" | grep -qxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1" && echo "$process"
  done
}

# stop_ranks COUNT MPIRUN_PID: sends SIGTERM to all ranks. The first to receive it may end the others.
stop_ranks() {
  local environments ranks
  mapfile -t environments < <(pgrep -P "$2,$(pgrep -d, -P "$2")" | sed 's|.*|/proc/&/environ|')
  mapfile -t ranks < <(grep -lzE '^(OMPI_COMM_WORLD_RANK|PMI_RANK)=' "${environments[@]}" | cut -d/ -f3)
  [ ${#ranks[@]} -eq "$1" ] || fail "${#ranks[@]} ranks are running, not $1"
  kill -TERM "${ranks[@]}"
}

# until_checkpoint: waits until the run in the background has written its first checkpoint to stopped/.
until_checkpoint() {
  for _ in $(seq 3000); do
    [ -e stopped/checkpoint.safetensors ] && return
    sleep 0.02
  done
  fail "no checkpoint after 60 s"
}

# has_libomp: whether OpenMP is LLVM's, which itself aborts for a wrong OMP_NUM_THREADS.
has_libomp() { ldd "$bin/rondo-doctor" | grep libomp >/dev/null; }
has_gpu() { [ -e /dev/nvidia0 ]; }
# on_gpu NAME: the program, or without a GPU the program that simulates some.
on_gpu() { if has_gpu; then echo "$bin/$1"; else echo "$bin/simulated_$1"; fi; }

# ./rank_1 WORDS… -- COMMAND…, on two ranks: adds WORDS to rank 1's COMMAND. (mpirun's `-np 1 A : -np 1 B` does the
# same, but mpirun of Open MPI 5.0.7 crashes with it.)
cat >rank_1 <<'END' && chmod +x rank_1
#!/usr/bin/env bash
words=()
while [ "$1" != -- ]; do words+=("$1") && shift; done
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] || words=()
exec "${@:2}" "${words[@]}"
END

# use_few_images: Fashion-MNIST becomes its first 3,000 training and test images, not compressed. Reading all of them
# takes as long as a short run.
use_few_images() {
  local from=/usr/share/datasets/fashion-mnist to=$work/data/FashionMNIST/raw part
  [ -e "$from" ] || return
  mkdir -p "$to"
  [ -z "${RONDO_DATA:-}" ] || ln -s "$RONDO_DATA"/* "$work/data/" 2>/dev/null # the other data sets
  for part in train t10k; do # 0 0 8 3: bytes in three dimensions; 3,000 = 11 * 256 + 184 of 28 x 28 pixels
    { printf '\0\0\10\3\0\0\13\270\0\0\0\34\0\0\0\34' && gzip -dc "$from/$part-images-idx3-ubyte.gz" |
      tail -c +17 | head -c $((3000 * 784)); } >"$to/$part-images-idx3-ubyte"
    { printf '\0\0\10\1\0\0\13\270' && gzip -dc "$from/$part-labels-idx1-ubyte.gz" |
      tail -c +9 | head -c 3000; } >"$to/$part-labels-idx1-ubyte"
  done
  export RONDO_DATA=$work/data
}
resnet=("$bin/cifar_resnet" --dataset fashion_mnist --limit 64 --batch 8 --lr 0.05 --threads 1) # 8 steps an epoch

# shellcheck source=tests/support/open_mpi.sh
. "$cases/../../support/open_mpi.sh"
file=${case%_slow}
case $file in resume_*) file=resume ;; esac
[ -e "$cases/$file.sh" ] || fail "unknown case $case"
# shellcheck source=/dev/null
. "$cases/$file.sh"
echo "passed"
