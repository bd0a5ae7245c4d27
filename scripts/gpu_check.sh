#!/usr/bin/env bash
# Checks rondo on a machine with an NVIDIA GPU, and measures it against the PyTorch that is there.
#
#   scripts/gpu_check.sh [--out DIR] [--seconds S] [--quick]
#
# It builds what is missing, runs the tests labelled gpu, compute-sanitizer on some of them, the examples, the kernels
# against the card's own copy bandwidth (bench/gpu_kernels) and training steps against PyTorch's
# (bench/train_step and bench/peers), trains CIFAR-10 where the data is, and writes to DIR (docs/gpu):
#
#   DATE-GPU.json              everything that was measured, with the versions of both sides
#   DATE-GPU.md                the same as a table
#   DATE-GPU.properties.json   what cuDNN must know to make plans for this card elsewhere
#
# A bare machine, with neither packages nor a registry, runs what another one built:
#
#   scripts/gpu_check.sh --bundle FILE.tar.xz      there, where packages are: builds and packs; runs nothing
#   tar xf FILE.tar.xz && rondo-gpu/scripts/gpu_check.sh --from rondo-gpu [--out DIR]
#
# --seconds S   each measurement of a step takes so long (5)
# --quick       tests and kernels only: no steps, no PyTorch, no training
# PEER_PYTHON   the Python that has PyTorch (python3); without one only rondo is measured
#
# Exit status: 0 only if all tests and the sanitizer were content.
set -uo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

out="" seconds=5 quick=0 bundle="" from=""
while [ $# -gt 0 ]; do
  case $1 in
  --out | --seconds | --bundle | --from)
    [ $# -gt 1 ] || {
      echo "gpu_check.sh: $1 needs a value" >&2
      exit 2
    }
    [ -n "$2" ] || {
      echo "gpu_check.sh: $1 needs a value" >&2
      exit 2
    }
    declare "${1#--}=$2"
    shift
    ;;
  --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' scripts/gpu_check.sh
    exit 0
    ;;
  --quick) quick=1 ;;
  *)
    echo "gpu_check.sh: unknown argument '$1'; there are --out --seconds --quick --bundle --from" >&2
    exit 2
    ;;
  esac
  shift
done
absolute() { case $1 in "" | /*) echo "$1" ;; *) echo "$called_from/$1" ;; esac; }
out=$(absolute "$out") bundle=$(absolute "$bundle") from=$(absolute "$from")

[[ $seconds =~ ^[0-9]+(\.[0-9]+)?$ ]] || {
  echo "gpu_check.sh: --seconds $seconds: a number of seconds is wanted" >&2
  exit 2
}
card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
[ -n "$card$bundle" ] || {
  echo "gpu_check.sh: nvidia-smi names no GPU here" >&2
  exit 1
}

examples=(01_autograd 03_ring 04_fine_tune 05_text 06_quantize)
targets=(cifar_resnet train_step gpu_kernels all_reduce "${examples[@]}")
# test_programs LIST: the programs of the tests in LIST, whose lines are files of tests/: nn/layers is in test_nn.
test_programs() { [ -s "$1" ] && sed 's|/.*||; s|^|test_|' "$1" | sort -u; }

# ---- Pack: the programs, linked against shared libraries so that the kernels are there once, with
# what they need of the system, in case it lacks there.
if [ -n "$bundle" ]; then
  set -e
  cmake -S . -B build/gpu-bundle -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DRONDO_CUDA=ON \
    -DRONDO_TESTS=ON -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON
  programs=$(test_programs build/gpu-bundle/gpu_tests.txt)
  mapfile -t tests <<<"$programs"
  cmake --build build/gpu-bundle -j "$(nproc)" --target "${targets[@]}" "${tests[@]}"
  folder=$(mktemp -d)/rondo-gpu
  mkdir -p "$folder"/{bin,lib,scripts,bench/peers,tests}
  for program in "${targets[@]}" "${tests[@]}"; do
    cp "build/gpu-bundle/bin/$program" "$folder/bin/"
    # Everything but the driver; what belongs to the C library apart, for systems with an older one.
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
  tar -C "$(dirname "$folder")" -cJf "$bundle" rondo-gpu
  rm -rf "$(dirname "$folder")"
  echo "gpu_check.sh: $bundle: $(du -h "$bundle" | cut -f1)"
  exit 0
fi

# ---- What to run, and how: as it is, or with the C library that was packed where this system's is older.
run_with=()
if [ -n "$from" ]; then
  bin=$from/bin list=$from/gpu_tests.txt
  [ -x "$bin/gpu_kernels" ] || {
    echo "gpu_check.sh: --from $from: there is no bin/gpu_kernels; make the folder with --bundle" >&2
    exit 2
  }
  # Only what this machine lacks is taken from the bundle.
  missing=$(mktemp -d)
  for library in "$from"/lib/*.so*; do
    name=$(basename "$library")
    case $name in librondo*) ;; *) ldconfig -p | grep -qF "$name" && continue ;; esac
    ln -s "$library" "$missing/$name"
  done
  export LD_LIBRARY_PATH=$missing${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  if ! "$bin/gpu_kernels" --help >/dev/null 2>&1; then
    run_with=("$from/lib/c/ld-linux-x86-64.so.2" --library-path "$from/lib:$from/lib/c:$(dirname "$(ldconfig -p | awk '/libcuda.so.1/ {print $NF; exit}')"):${LD_LIBRARY_PATH}")
    "${run_with[@]}" "$bin/gpu_kernels" --help >/dev/null || {
      echo "gpu_check.sh: the programs in $from do not start on this machine" >&2
      exit 1
    }
  fi
else
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DRONDO_CUDA=ON -DRONDO_TESTS=ON || exit 1
  programs=$(test_programs build/gpu_tests.txt) || exit 1
  mapfile -t tests <<<"$programs"
  cmake --build build -j "$(nproc)" --target "${targets[@]}" "${tests[@]}" || exit 1
  bin=build/bin list=build/gpu_tests.txt
fi
program() {
  local name=$1
  shift
  "${run_with[@]}" "$bin/$name" "$@"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=$(date +%Y-%m-%d)-$(echo "$card" | tr -cs '[:alnum:]\n' '-' | tr '[:upper:]' '[:lower:]' | sed 's/-$//')
out=${out:-docs/gpu}
mkdir -p "$out" || exit 1
status=0

# ---- Right.
{
  echo "card: $card"
  nvidia-smi --query-gpu=driver_version,memory.total,clocks.max.sm,clocks.max.memory --format=csv,noheader
} | tee "$work/machine.txt"
: >"$work/tests.txt"
while read -r test; do
  [ -n "$test" ] || continue
  if RONDO_TEST_DEVICE=cuda RONDO_GPU_PROPERTIES_OUT=$out/$name.properties.json program "test_${test%%/*}" "--file=$test" >"$work/test.log" 2>&1; then
    verdict=passed
  else
    verdict=FAILED status=1
    grep -B 8 -E '^\[  FAILED|Segmentation|terminate' "$work/test.log" | tail -n 60
  fi
  echo "$test $verdict $(grep -oE '^\[==========\] [0-9]+ tests' "$work/test.log" | grep -oE '[0-9]+' | tail -n 1) tests, $(grep -cE '^\[  SKIPPED \] [^ ]+ \(' "$work/test.log") skipped" | tee -a "$work/tests.txt"
done <"$list"

if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    if timeout 240 compute-sanitizer --tool "$tool" --error-exitcode 9 "${run_with[@]}" "$bin/test_tensor" --file=tensor/cuda/kernels \
      >"$work/sanitizer.log" 2>&1; then
      echo "compute-sanitizer $tool: clean" | tee -a "$work/tests.txt"
    else
      code=$?
      echo "compute-sanitizer $tool: status $code" | tee -a "$work/tests.txt"
      tail -n 15 "$work/sanitizer.log"
      # 9: it found something; anything else: it could not do its work here.
      [ $code -ne 9 ] || status=1
    fi
  done
else
  echo "compute-sanitizer: not on this machine" | tee -a "$work/tests.txt"
fi

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
      echo "$example not run: RONDO_DATA is not set" | tee -a "$work/tests.txt"
      continue
    }
    ;;
  esac
  if program "$example" --device cuda "${arguments[@]}" >"$work/example.log" 2>&1; then
    echo "$example --device cuda passed" | tee -a "$work/tests.txt"
  else
    echo "$example --device cuda FAILED" | tee -a "$work/tests.txt"
    tail -n 5 "$work/example.log"
    status=1
  fi
done

# ---- Fast.
program gpu_kernels --json "$work/kernels.json" || status=1
python=${PEER_PYTHON:-$(command -v python3)}
has_torch=0
if [ -n "$python" ] && "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then has_torch=1; fi
if [ $quick -eq 0 ]; then
  [ $has_torch -eq 1 ] || echo "gpu_check.sh: no PyTorch with CUDA on this machine: rondo alone is measured"
  for what in "resnet18 512" "resnet50 256"; do
    read -r model batch <<<"$what"
    common=(--model "$model" --batch "$batch" --dtype bf16 --device cuda --seconds "$seconds" --json -)
    # Twice in turns: the card's speed drifts with its temperature.
    for round in 1 2; do
      for graph in "" --graph; do
        RONDO_MEASURE_PLANS=1 program train_step "${common[@]}" $graph >"$work/rondo.$model.${graph:-eager}.$round.json" || status=1
      done
      if [ $has_torch -eq 1 ]; then
        for compile in off on max-autotune; do
          timeout 400 "$python" bench/peers/train_step.py "${common[@]}" --layout channels_last --compile $compile \
            >"$work/torch.$model.$compile.$round.json" 2>"$work/torch.log" || tail -n 3 "$work/torch.log"
        done
      fi
    done
  done
  if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
    cards=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
  else
    cards=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
  fi
  if [ "$cards" -gt 1 ] && mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    timeout 300 mpirun --allow-run-as-root --bind-to none -np "$cards" "${run_with[@]}" "$bin/all_reduce" --device cuda \
      --json "$work/all_reduce.json" || status=1
  else
    echo "gpu_check.sh: all-reduce is not measured: it wants two cards, here are $cards, and Open MPI's mpirun"
  fi
  if [ -n "${RONDO_DATA:-}" ]; then
    start=$(date +%s)
    if RONDO_MEASURE_PLANS=1 program cifar_resnet --device cuda --graph --resident --model resnet18 --epochs "${GPU_CHECK_EPOCHS:-18}" \
      --batch 512 --lr 0.8 --json "$work/cifar.json" --checkpoint-dir "$work/run"; then
      echo "{\"seconds\": $(($(date +%s) - start)), \"result\": $(cat "$work/cifar.json")}" >"$work/cifar10.json"
    else
      status=1
    fi
  else
    echo "gpu_check.sh: RONDO_DATA is not set: CIFAR-10 is not trained"
  fi
fi

# ---- Report.
if [ -n "$python" ]; then
  "$python" scripts/gpu_report.py "$work" "$out/$name" || status=1
else
  mkdir -p "$out/$name" && cp "$work"/*.json "$work"/*.txt "$out/$name/"
  echo "gpu_check.sh: no python3 to write the report with; the pieces are in $out/$name/"
fi
exit $status
