#!/usr/bin/env bash
# Tests rondo on a machine with an NVIDIA GPU, and compares its speed with the installed PyTorch.
#
#   scripts/gpu_check.sh [--only STAGE[,STAGE...]] [--out DIR] [--seconds S]
#
# It builds missing programs and runs these stages, or those of --only. A stage ends after eight minutes: what has not
# run by then has failed (a tool of the sanitizer is only named).
#
#   smoke      versions; one op of each library in each dtype, with the libraries' own logs enabled
#   tests      the tests labelled gpu, four at a time
#   sanitizer  compute-sanitizer (memcheck, racecheck, initcheck) on the tests of the kernels, at most 150 s each
#   numbers    the examples; CIFAR-10 to its accuracy, if RONDO_DATA is set
#   bench      the kernels relative to the card's copy bandwidth (bench/gpu_kernels), and training steps relative to
#              PyTorch's (bench/train_step and bench/peers)
#   nccl       all-reduce between the cards, if there are at least two
#
# Each stage writes its results to DIR (docs/gpu), and adds them to those of earlier stages of the same day:
#
#   DATE-GPU/                  logs of all programs, and their measurements
#   DATE-GPU.json, DATE-GPU.md everything that was measured, with the versions of both sides, and its tables
#   DATE-GPU.properties.json   the description of the card with which cuDNN can make plans for it on another machine
#
# A machine without packages and without a network can run programs that another machine built:
#
#   scripts/gpu_check.sh --bundle FILE.tar.xz      on the machine with packages: builds and packs; runs nothing
#   tar xf FILE.tar.xz && rondo-gpu/scripts/gpu_check.sh --from rondo-gpu [--only STAGE] [--out DIR]
#
# --seconds S   time of each measurement of a step (5)
# PEER_PYTHON   the Python that has PyTorch (python3); without PyTorch only rondo is measured. NVIDIA's libraries are
#               taken from its packages if the system has none
#
# Exit status: 0 only if everything that ran passed.
set -uo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
stages=(smoke tests sanitizer numbers bench nccl)

die() {
  echo "gpu_check.sh: $1" >&2
  exit "${2:-2}"
}
out="" seconds=5 only="" bundle="" from=""
while [ $# -gt 0 ]; do
  case $1 in
  --out | --seconds | --bundle | --from | --only)
    [ -n "${2:-}" ] || die "$1 needs a value"
    declare "${1#--}=$2"
    shift
    ;;
  --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' scripts/gpu_check.sh
    exit 0
    ;;
  *) die "unknown argument '$1'; the flags are --only --out --seconds --bundle --from" ;;
  esac
  shift
done
absolute() { case $1 in "" | /*) echo "$1" ;; *) echo "$called_from/$1" ;; esac; }
out=$(absolute "$out") bundle=$(absolute "$bundle") from=$(absolute "$from")
[[ $seconds =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "--seconds $seconds is not a number of seconds"
if [ -n "$only" ]; then
  IFS=, read -ra wanted <<<"$only"
  [ ${#wanted[@]} -gt 0 ] || die "--only $only: no stage is named"
  for stage in "${wanted[@]}"; do
    [[ -n $stage && " ${stages[*]} " = *" $stage "* ]] || die "--only $stage: unknown stage; the stages are ${stages[*]}"
  done
  stages=("${wanted[@]}")
fi

card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
[ -n "$card$bundle" ] || die "nvidia-smi finds no GPU on this machine" 1

examples=(01_autograd 03_ring 04_fine_tune 05_text 06_quantize)
targets=(cifar_resnet train_step gpu_kernels all_reduce "${examples[@]}")
# test_programs LIST: prints the programs of the tests in LIST. Each line of LIST is a file of tests/: nn/layers is in
# test_nn.
test_programs() { [ -s "$1" ] && sed 's|/.*||; s|^|test_|' "$1" | sort -u; }

# build FOLDER OPTION...: configures FOLDER, and builds the programs that the stages run.
build() {
  local folder=$1 tests programs
  shift
  cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRONDO_CUDA=ON -DRONDO_TESTS=ON "$@" || return 1
  programs=$(test_programs "$folder/gpu_tests.txt") || return 1
  mapfile -t tests <<<"$programs"
  targets+=("${tests[@]}")
  cmake --build "$folder" -j "$(nproc)" --target "${targets[@]}"
}

# ---- Pack: the programs with the system libraries that the other machine may lack. The programs are
# linked against rondo's shared libraries, so that the bundle has the kernels once.
if [ -n "$bundle" ]; then
  set -e
  build build/gpu-bundle -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON
  folder=$(mktemp -d)/rondo-gpu
  mkdir -p "$folder"/{bin,lib,scripts,bench/peers,tests/tensor/cuda}
  for program in "${targets[@]}"; do
    cp "build/gpu-bundle/bin/$program" "$folder/bin/"
    # All libraries except the driver. Those of the C library are kept apart, for systems with an older one.
    ldd "build/gpu-bundle/bin/$program" | awk '$3 ~ "^/" {print $3} $1 ~ "^/.*ld-linux" {print $1}'
  done | sort -u | while read -r library; do
    case $(basename "$library") in
    libcuda.so*) ;;
    ld-linux* | libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | libresolv.so*)
      mkdir -p "$folder/lib/c" && cp -L "$library" "$folder/lib/c/"
      ;;
    *) cp -L "$library" "$folder/lib/" ;;
    esac
  done
  strip "$folder"/bin/* "$folder"/lib/*.so* 2>/dev/null || true
  cp build/gpu-bundle/gpu_tests.txt "$folder/"
  cp scripts/gpu_check.sh scripts/gpu_report.py "$folder/scripts/"
  cp bench/peers/*.py "$folder/bench/peers/"
  cp -r tests/golden "$folder/tests/"
  cp tests/tensor/cuda/*.json "$folder/tests/tensor/cuda/"
  tar -C "$(dirname "$folder")" -cJf "$bundle" rondo-gpu
  rm -rf "$(dirname "$folder")"
  echo "gpu_check.sh: $bundle: $(du -h "$bundle" | cut -f1)"
  exit 0
fi

# ---- The programs to run, and their environment.
python=${PEER_PYTHON:-$(command -v python3)}
torch=""
if [ -n "$python" ]; then torch=$(timeout 120 "$python" -c 'import torch; assert torch.cuda.is_available(); print(torch.__version__)' 2>/dev/null); fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# rondo also looks for NVIDIA's libraries in $VIRTUAL_ENV. Only its programs get this one, which has the packages that the
# Python finds, wherever they are (an environment, the system's dist-packages, ~/.local): PyTorch finds its own.
wheels=$scratch/environment/lib/python3/site-packages/nvidia
mkdir -p "$wheels"
[ -z "$python" ] || "$python" - "$wheels" <<'END'
import os, sys
for folder in sys.path:
    folder = os.path.join(folder, "nvidia")
    for package in os.scandir(folder) if os.path.isdir(folder) else []:
        link = os.path.join(sys.argv[1], package.name)
        if package.is_dir() and not os.path.lexists(link):
            os.symlink(os.path.abspath(package.path), link)
END
environment=("VIRTUAL_ENV=$scratch/environment")
run_with=()
if [ -n "$from" ]; then
  bin=$from/bin list=$from/gpu_tests.txt
  [ -x "$bin/gpu_kernels" ] || die "--from $from: bin/gpu_kernels is missing; make the folder with --bundle"
  # Take only those libraries from the bundle that this machine lacks.
  missing=$scratch/lib
  mkdir "$missing"
  environment+=("RONDO_TEST_FILES=$from")
  for library in "$from"/lib/*.so*; do
    name=$(basename "$library")
    case $name in librondo*) ;; *) ldconfig -p | grep -qF "$name" && continue ;; esac
    ln -s "$library" "$missing/$name"
  done
  environment+=("LD_LIBRARY_PATH=$missing${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
  if ! timeout 60 env "${environment[@]}" "$bin/gpu_kernels" --help >/dev/null 2>&1; then # an older C library than it was built with
    run_with=("$from/lib/c/ld-linux-x86-64.so.2" --library-path "$from/lib:$from/lib/c:$(dirname "$(ldconfig -p | awk '/libcuda.so.1/ {print $NF; exit}')")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
    timeout 60 env "${environment[@]}" "${run_with[@]}" "$bin/gpu_kernels" --help >/dev/null || die "the programs in $from do not start on this machine" 1
  fi
else
  build build || exit 1
  bin=build/bin list=build/gpu_tests.txt
fi

name=$(date +%Y-%m-%d)-$(echo "$card" | tr -cs '[:alnum:]\n' '-' | tr '[:upper:]' '[:lower:]' | sed 's/-$//')
out=${out:-docs/gpu}
work=$out/$name
mkdir -p "$work" || exit 1
failures=$work/failures.txt
: >"$failures"
stage_limit=480 stage_start=$SECONDS

# limited SECONDS COMMAND...: ends the command after so many seconds, or with its stage.
limited() {
  local limit=$1 left=$((stage_start + stage_limit - SECONDS))
  shift
  if [ $left -lt 1 ]; then
    echo "not run: the stage has taken its $stage_limit s"
    return 124
  fi
  timeout --kill-after 5 $((limit < left ? limit : left)) "$@"
}
# program SECONDS NAME ARGUMENT...: runs one of rondo's programs with a limit.
program() {
  local limit=$1 name=$2
  shift 2
  limited "$limit" env "${environment[@]}" "${run_with[@]}" "$bin/$name" "$@"
}
# note STAGE WORDS...: adds a line to the stage's results, and prints it.
note() {
  local stage=$1
  shift
  echo "$*" | tee -a "$work/$stage.txt"
}
# step STAGE NAME COMMAND...: runs the command with a log of its own, and notes whether it passed. After a failure it
# prints the end of the log.
step() {
  local stage=$1 what=$2 start=$SECONDS status
  local log=$work/$stage.${what//[^[:alnum:]]/_}.log
  shift 2
  "$@" >"$log" 2>&1
  status=$?
  case $status in
  0) note "$stage" "$what passed, $((SECONDS - start)) s$(of_tests "$log")" ;;
  124 | 137) note "$stage" "$what FAILED: ended after $((SECONDS - start)) s$(of_tests "$log")" ;;
  *) note "$stage" "$what FAILED: status $status$(of_tests "$log")" ;;
  esac
  [ $status -eq 0 ] && return
  echo "$stage $what" >>"$failures"
  { grep -B 8 -E '^\[  FAILED|Segmentation|terminate|========= [A-Z]' "$log" || cat "$log"; } | tail -n 40
}
of_tests() { # LOG: prints the number of tests in it
  local run skipped
  run=$(grep -oE '^\[==========\] [0-9]+ tests? from .* ran' "$1" | grep -oE '[0-9]+' | head -n 1)
  skipped=$(grep -cE '^\[  SKIPPED \] [^ ]+ \(' "$1")
  [ -z "$run" ] || echo ": $run tests, $skipped skipped"
}
one_test() { # STAGE FILE
  RONDO_TEST_DEVICE=cuda RONDO_GPU_PROPERTIES_OUT=$out/$name.properties.json step "$1" "$2" program 240 "test_${2%%/*}" "--file=$2"
}

stage_smoke() {
  (
    export CUBLASLT_LOG_LEVEL=2 CUDNN_LOGLEVEL_DBG=2 CUDNN_LOGDEST_DBG=stderr NCCL_DEBUG=INFO
    one_test smoke tensor/cuda/smoke
    one_test smoke dist/transports/cuda/real_nccl
  )
}

stage_tests() {
  local test
  while read -r test; do
    [ -n "$test" ] || continue
    while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n; done
    one_test tests "$test" &
  done <"$list"
  wait
}

stage_sanitizer() {
  local tool
  command -v compute-sanitizer >/dev/null || {
    note sanitizer "compute-sanitizer: not on this machine"
    return
  }
  for tool in memcheck racecheck initcheck; do
    step sanitizer "$tool" sanitized "$tool"
  done
}

# sanitized TOOL: fails only if the tool found an error, not if it did not end in time (racecheck is slow) or cannot run
# on this machine.
sanitized() {
  local status
  limited 150 env "${environment[@]}" compute-sanitizer --tool "$1" --error-exitcode 9 "${run_with[@]}" \
    "$bin/test_tensor" --file=tensor/cuda/kernels
  status=$?
  [ $status -eq 9 ] && return 9
  [ $status -eq 0 ] || note sanitizer "$1 did not end: status $status, without a finding so far"
}

stage_numbers() {
  local example arguments
  rm -f "$work/cifar10.json"
  for example in "${examples[@]}"; do
    arguments=()
    case $example in
    03_ring) arguments=(--all-reduce mpi) ;; # its four ranks may share a card
    05_text) arguments=(--text scripts/gpu_check.sh --steps 50 --every 50 --sample 0) ;;
    04_fine_tune) arguments=(--epochs 1) ;;
    06_quantize) arguments=(--train-steps 200) ;;
    esac
    case $example in
    04_fine_tune | 06_quantize)
      [ -n "${RONDO_DATA:-}" ] || {
        note numbers "$example not run: RONDO_DATA is not set"
        continue
      }
      ;;
    esac
    step numbers "$example --device cuda" program 60 "$example" --device cuda "${arguments[@]}"
  done
  if [ -n "${RONDO_DATA:-}" ]; then
    step numbers CIFAR-10 program 300 \
      cifar_resnet --device cuda --graph --resident --amp bf16 --model resnet18 --epochs 40 --batch 256 --lr 0.3 \
      --json "$work/cifar10.json" --checkpoint-dir "$scratch/run"
  else
    note numbers "CIFAR-10 not trained: RONDO_DATA is not set"
  fi
}

stage_bench() {
  rm -f "$work"/kernels.json "$work"/rondo.*.json "$work"/torch.*.json # from an earlier run on this day
  local what model batch common round graph compile
  step bench gpu_kernels program 150 gpu_kernels --json "$work/kernels.json"
  [ -n "$torch" ] || note bench "no PyTorch with CUDA on this machine: only rondo is measured"
  for what in "resnet18 512" "resnet50 256"; do
    read -r model batch <<<"$what"
    common=(--model "$model" --batch "$batch" --dtype bf16 --device cuda --seconds "$seconds")
    # Twice in turns: the card's speed drifts with its temperature.
    for round in 1 2; do
      for graph in "" --graph; do
        RONDO_MEASURE_PLANS=1 step bench "$model ${graph:-eager} $round" program 90 train_step "${common[@]}" $graph \
          --json "$work/rondo.$model.${graph:-eager}.$round.json"
      done
      [ -n "$torch" ] || continue
      for compile in off on; do
        step bench "PyTorch $model compile $compile $round" limited 120 "$python" bench/peers/train_step.py "${common[@]}" \
          --layout channels_last --weights dtype --compile $compile --json "$work/torch.$model.$compile.$round.json"
      done
    done
  done
}

stage_nccl() {
  local cards
  rm -f "$work/all_reduce.json"
  cards=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
  [ -z "${CUDA_VISIBLE_DEVICES:-}" ] || cards=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
  if [ "$cards" -gt 1 ] && [[ $(mpirun --version 2>&1) =~ "Open MPI"|schizo-ompi ]]; then
    step nccl all_reduce limited 240 env "${environment[@]}" mpirun --allow-run-as-root --bind-to none -np "$cards" \
      "${run_with[@]}" "$bin/all_reduce" --device cuda --json "$work/all_reduce.json"
  else
    note nccl "all-reduce is not measured: it needs two cards (found: $cards) and Open MPI's mpirun"
  fi
}

{
  echo "card: $card"
  nvidia-smi --query-gpu=driver_version,memory.total,clocks.max.sm,clocks.max.memory --format=csv,noheader
  echo "PyTorch: ${torch:-none with CUDA}"
} | tee "$work/machine.txt"
for stage in "${stages[@]}"; do
  stage_start=$SECONDS
  : >"$work/$stage.txt"
  "stage_$stage"
  echo "gpu_check.sh: stage $stage took $((SECONDS - stage_start)) s"
  if [ -n "$python" ]; then
    timeout 60 "$python" scripts/gpu_report.py "$work" "$out/$name" >"$work/report.log" 2>&1 || echo "report" >>"$failures"
  fi
done
if [ -n "$python" ]; then
  cat "$work/report.log"
else
  echo "gpu_check.sh: no report, since python3 is missing; its parts are in $work"
fi
[ ! -s "$failures" ] || die "failed: $(tr '\n' ';' <"$failures")" 1
