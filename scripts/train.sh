#!/usr/bin/env bash
# Trains ResNet-20 on CIFAR-10 with mpirun on all cores of this machine, from a bare clone.
#
#   scripts/train.sh [arguments for cifar_resnet…]   build/bin/cifar_resnet --help lists them
#
#   scripts/train.sh --epochs 30                     a longer run
#   scripts/train.sh --model resnet18 --lr 0.1       another model
#   scripts/train.sh --resume                        resumes a run that was stopped
#   scripts/train.sh --device cuda --graph --resident    on the GPUs of this machine, a rank on each
#   NP=2 scripts/train.sh                            two ranks, on any number of cores
#
# It installs missing packages (scripts/setup.sh), builds Release in build/, and starts one rank on each
# core, or with --device cuda on each GPU. The data set is looked for in --data or, without that flag, in
# $RONDO_DATA (default ~/.cache/rondo), and downloaded if it is missing. Without a network the script
# trains on Fashion-MNIST from the package dataset-fashion-mnist instead. Paths in the arguments, and the
# folder runs/ with the results, are relative to the folder that the script is called from.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
trap 'exit 130' INT # after Ctrl-C, run nothing more
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repository=$PWD

./scripts/setup.sh core

# ---- Build. An existing build folder keeps its settings, except that the examples are built.
configure=()
if [ ! -e build/CMakeCache.txt ]; then
  configure=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DRONDO_TESTS=OFF)
  # CUDA kernels take longer to compile than everything else.
  if ! nvidia-smi -L >/dev/null 2>&1; then configure+=(-DRONDO_CUDA=OFF); fi
fi
# An earlier run without a GPU may have disabled CUDA. --device cuda enables it again.
if [[ " $* " == *" --device cuda"* || " $* " == *" --device=cuda"* ]] && nvidia-smi -L >/dev/null 2>&1; then
  configure+=(-DRONDO_CUDA=AUTO)
fi
cmake -S . -B build -DRONDO_EXAMPLES=ON "${configure[@]}"
cmake --build build --target cifar_resnet -j "$(nproc)"

# argument NAME DEFAULT: prints the value of --NAME in "$@".
given=("$@")
argument() {
  local i value=$2
  for ((i = 0; i < ${#given[@]}; ++i)); do
    case ${given[i]} in
    "--$1") value=${given[i + 1]:-$2} ;;
    "--$1="*) value=${given[i]#*=} ;;
    esac
  done
  echo "$value"
}
has() {
  local arg
  for arg in "${given[@]}"; do
    case $arg in "--$1" | "--$1="*) return 0 ;; esac
  done
  return 1
}

# ---- Data. The program downloads missing data. This script only chooses Fashion-MNIST if there is no network.
extra=()
data=${RONDO_DATA:-${XDG_CACHE_HOME:-$HOME/.cache}/rondo}
has_cifar() {
  [ -d "$data/datasets/cifar-10-batches-bin" ] || [ -d "$data/cifar-10-batches-bin" ] ||
    [ -e "$data/data_batch_1.bin" ]
}
answers() { # HOST PORT; with a proxy or a mirror only a download can tell, so the answer is yes
  [ -n "${https_proxy:-${HTTPS_PROXY:-${all_proxy:-${RONDO_MIRROR:-}}}}" ] ||
    timeout 10 bash -c ": </dev/tcp/$1/$2" 2>/dev/null
}
if ! has data && ! has dataset && ! has_cifar && ! answers www.cs.toronto.edu 443; then
  echo
  echo "train.sh: CIFAR-10 is not in $data, and the server for its download, www.cs.toronto.edu,"
  echo "train.sh: does not answer. Training on FASHION-MNIST instead (28x28 grey images of clothes, from the"
  echo "train.sh: package dataset-fashion-mnist): accuracies are not those of CIFAR-10."
  echo
  extra=(--dataset fashion_mnist)
fi

# ---- Ranks. Use as many cores as possible (ranks times threads of each). All ranks must have the same
# number of images, at least 16. If two choices use equally many cores, take the one with more ranks.
cores=$({ lscpu -p=CPU,CORE,SOCKET 2>/dev/null || true; } | awk -F, -v allowed="$(taskset -cp $$ | sed 's/.*: //')" '
  BEGIN {
    n = split(allowed, ranges, ",")
    for (i = 1; i <= n; ++i) {
      m = split(ranges[i], ends, "-")
      for (c = ends[1] + 0; c <= ends[m] + 0; ++c) may[c] = 1
    }
  }
  !/^#/ && ($1 in may) && !(($2 "," $3) in seen) { seen[$2 "," $3] = 1; ++cores }
  END { print cores }')
[ -n "$cores" ] || cores=$(nproc) # lscpu fails if /sys is not mounted
# Apply the smallest quota of this process's control groups and of all groups above them.
limited=0
while IFS=: read -r _ controllers group; do
  case ,$controllers, in
  ,,) mount=/sys/fs/cgroup file=cpu.max ;;
  *,cpu,*) mount=/sys/fs/cgroup/cpu file=cpu.cfs_quota_us ;;
  *) continue ;;
  esac
  [ "$group" != / ] || group=
  while :; do
    quota=max period=100000
    read -r quota period 2>/dev/null <"$mount$group/$file" || true
    if [ "$file" != cpu.max ]; then read -r period 2>/dev/null <"$mount$group/cpu.cfs_period_us" || true; fi
    if [[ $quota =~ ^[0-9]+$ && $period =~ ^[1-9][0-9]*$ ]]; then
      limited=1
      share=$((quota / period > 0 ? quota / period : 1))
      [ "$share" -ge "$cores" ] || cores=$share
    fi
    [ -n "$group" ] || break
    group=${group%/*}
  done
done </proc/self/cgroup
batch=$(argument batch 128)
[[ $batch =~ ^[1-9][0-9]*$ ]] || batch=1 # the program reports the error
ranks=${NP:-}
if [ -z "$ranks" ] && [[ $(argument device cpu) == cuda:* ]]; then ranks=1; fi
if [ -z "$ranks" ] && [ "$(argument device cpu)" = cuda ]; then
  ranks=$({ nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU ') || true # one for each GPU
  [ "$ranks" -gt 0 ] || ranks=1                                            # the program reports the error
fi
if [ -z "$ranks" ]; then
  ranks=1
  for ((n = 2; n <= cores && n * 16 <= batch; ++n)); do
    if [ $((batch % n)) -eq 0 ] && [ $((cores / n * n)) -ge $((cores / ranks * ranks)) ]; then ranks=$n; fi
  done
fi
[[ $ranks =~ ^[1-9][0-9]*$ ]] || {
  echo "train.sh: NP=$ranks is not a number of ranks" >&2
  exit 2
}
threads=$((cores / ranks > 0 ? cores / ranks : 1))
has threads || extra+=(--threads "$threads")

# Pin threads to cores only if the script may use the whole machine. In a container or under a quota other
# programs may use the same cores, and the scheduler places threads better.
mpi=(-np "$ranks")
if [ $limited -eq 0 ] && [ "$(nproc)" -eq "$(nproc --all)" ] && [ $((ranks * threads)) -le "$cores" ] &&
  [ ! -e /.dockerenv ] && [ ! -e /run/.containerenv ]; then
  mpi+=(--map-by "slot:pe=$threads" --bind-to core)
else
  mpi+=(--bind-to none)
fi
if [ "$ranks" -gt "$cores" ]; then # a rank that waits must leave its core to the others
  mpi+=(--oversubscribe --mca mpi_yield_when_idle 1)
fi
if [ "$(id -u)" -eq 0 ]; then
  echo "train.sh: running as root, so mpirun gets --allow-run-as-root"
  mpi+=(--allow-run-as-root)
fi

# Under mpirun the program always sees a terminal, so this script checks whether there is one.
[ ! -t 1 ] || has progress || extra+=(--progress bar)

cd "$called_from"
program=$repository/build/bin/cifar_resnet
echo "train.sh: $ranks ranks with $threads threads each: mpirun ${mpi[*]} $program ${extra[*]} $*"

exec "$repository/scripts/run_ranks.sh" mpirun "${mpi[@]}" "$program" "${extra[@]}" "$@"
