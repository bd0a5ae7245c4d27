#!/usr/bin/env bash
# Trains ResNet-20 on CIFAR-10 with mpirun on all cores of this machine, from a bare clone.
#
#   scripts/train.sh [arguments for cifar_resnet…]
#
#   scripts/train.sh --epochs 30                     a longer run
#   scripts/train.sh --model resnet18 --lr 0.1       another model
#   scripts/train.sh --resume                        go on where a run was stopped
#   NP=2 scripts/train.sh                            two ranks, whatever the machine has
#
# It installs missing packages (scripts/setup.sh), builds Release in build/, and starts one rank on
# each core. The data set is looked for in --data, $RONDO_DATA and the per-user cache, and downloaded
# if it is in none; where there is no network, Fashion-MNIST from the package dataset-fashion-mnist
# stands in for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./scripts/setup.sh core

# ---- Build. An existing build folder keeps its settings.
configure=()
if [ ! -e build/CMakeCache.txt ]; then
  configure=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DRONDO_TESTS=OFF)
  if command -v ccache >/dev/null; then
    configure+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
fi
cmake -S . -B build "${configure[@]}"
cmake --build build --target cifar_resnet -j "$(nproc)"

# argument NAME DEFAULT: the value that "$@" gives to --NAME.
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

# ---- Data. The program downloads what is missing; only "nobody answers" is decided here.
extra=()
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rondo/datasets
answers() { # HOST PORT; behind a proxy nothing can be said before trying
  [ -n "${https_proxy:-${HTTPS_PROXY:-${all_proxy:-}}}" ] ||
    timeout 10 bash -c ": </dev/tcp/$1/$2" 2>/dev/null
}
if ! has data && ! has dataset && [ ! -d "${RONDO_DATA:-$cache}/cifar-10-batches-bin" ] &&
  [ ! -d "$cache/cifar-10-batches-bin" ] && ! answers www.cs.toronto.edu 443; then
  echo
  echo "train.sh: CIFAR-10 is not in ${RONDO_DATA:-$cache}, and www.cs.toronto.edu, where it could be"
  echo "train.sh: downloaded from, does not answer. Training on FASHION-MNIST instead (28x28 grey images of"
  echo "train.sh: clothes, from the package dataset-fashion-mnist): accuracies are not those of CIFAR-10."
  echo
  extra=(--dataset fashion_mnist)
fi

# ---- Ranks. One for each physical core this process may use, as long as each has at least 16 images
# of the batch and all have equally many; cores left over become OpenMP threads of the ranks.
cores=$(lscpu -p=CPU,CORE,SOCKET | awk -F, -v allowed="$(taskset -cp $$ | sed 's/.*: //')" '
  BEGIN {
    n = split(allowed, ranges, ",")
    for (i = 1; i <= n; ++i) {
      m = split(ranges[i], ends, "-")
      for (c = ends[1] + 0; c <= ends[m] + 0; ++c) may[c] = 1
    }
  }
  !/^#/ && ($1 in may) && !(($2 "," $3) in seen) { seen[$2 "," $3] = 1; ++cores }
  END { print cores }')
limited=0
if read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && [ "$quota" != max ]; then
  limited=1
elif read -r quota 2>/dev/null </sys/fs/cgroup/cpu/cpu.cfs_quota_us && [ "$quota" -gt 0 ]; then
  read -r period </sys/fs/cgroup/cpu/cpu.cfs_period_us
  limited=1
fi
if [ $limited -eq 1 ] && [ $((quota / period)) -lt "$cores" ]; then
  cores=$((quota / period > 0 ? quota / period : 1))
fi
batch=$(argument batch 128)
ranks=${NP:-}
if [ -z "$ranks" ]; then
  ranks=1
  for ((n = 2; n <= cores && n * 16 <= batch; ++n)); do
    if [ $((batch % n)) -eq 0 ]; then ranks=$n; fi
  done
fi
threads=$((cores / ranks > 0 ? cores / ranks : 1))
has threads || extra+=(--threads "$threads")

# Pinned to cores where the whole machine is ours; in a container or under a quota others may have
# been given the same cores, and the scheduler knows better.
# When it is asked to stop, mpirun passes the signal on after this many seconds and kills after as many
# more: time for the step at hand and a checkpoint.
mpi=(-np "$ranks" --mca odls_base_sigkill_timeout 10)
if [ $limited -eq 0 ] && [ "$(nproc)" -eq "$(nproc --all)" ] && [ $((ranks * threads)) -le "$cores" ] &&
  [ ! -e /.dockerenv ] && [ ! -e /run/.containerenv ]; then
  mpi+=(--map-by "slot:pe=$threads" --bind-to core)
else
  mpi+=(--bind-to none)
fi
if [ "$ranks" -gt "$cores" ]; then
  mpi+=(--oversubscribe)
fi
if [ "$(id -u)" -eq 0 ]; then
  echo "train.sh: running as root, so mpirun gets --allow-run-as-root"
  mpi+=(--allow-run-as-root)
fi

echo "train.sh: $ranks ranks with $threads threads each: mpirun ${mpi[*]} build/bin/cifar_resnet ${extra[*]} $*"
exec mpirun "${mpi[@]}" build/bin/cifar_resnet "${extra[@]}" "$@"
