#!/usr/bin/env bash
# Builds rondo in Release and runs the tests labelled cpu and mpi. Then it builds the libraries under ASan + UBSan and
# runs the tests with them, without compiling the tests again. The programs (ctest -R '^(programs|guide)/') run in
# Release only, since under sanitizers they take as long as everything else.
#
#   scripts/test.sh [--tsan] [--slow] [--fuzz] [--oracle] [--mpich]
#
# --tsan    also runs the libraries under ThreadSanitizer, with one OpenMP thread (libgomp is not instrumented)
# --slow    in Release also runs the tests labelled slow (half an hour: an accuracy, gigabytes over MPI); under
#           sanitizers also sanitizes the tests, checks alignment and runs the programs (twenty minutes more)
# --fuzz    runs the fuzz tests with many more mutations, under ASan + UBSan; if clang is installed, also
#           libFuzzer's targets in build-fuzz/, each for a minute or RONDO_FUZZ_SECONDS
# --mpich   also builds against MPICH, without CUDA, and runs the tests labelled mpi
# --oracle  recomputes the goldens with the current PyTorch (from PyPI, in build/oracle) and compares; runs
#           exported models in ONNX Runtime
#
# RONDO_DATA names the folder of real data sets. Tests whose data set is missing are skipped and say so. At the end
# the script prints the time of each phase and the ten slowest tests; scripts/build_times.sh prints the time of each
# part of a build. Exit status: 0 only if everything was built and passed.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=(release asan)
slow=0
fuzz=0
oracle=0
mpich=0
for arg in "$@"; do
  case $arg in
  --tsan) presets+=(tsan) ;;
  --slow) slow=1 ;;
  --fuzz) fuzz=1 ;;
  --oracle) oracle=1 ;;
  --mpich) mpich=1 ;;
  *)
    echo "test.sh: unknown argument '$arg'; the flags are --tsan --slow --fuzz --oracle --mpich" >&2
    exit 2
    ;;
  esac
done

phases=()
phase_began=$SECONDS
# phase NAME: records the time since the last phase under NAME.
phase() {
  phases+=("$(printf '%5d s  %s' $((SECONDS - phase_began)) "$1")")
  phase_began=$SECONDS
}

if [ $((oracle + mpich + fuzz)) -gt 0 ]; then
  ./scripts/setup.sh extra
else
  ./scripts/setup.sh test
fi
phase "packages"

jobs=$(nproc)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

folder_of() {
  if [ "$1" = release ]; then echo build; else echo "build-$1"; fi
}

# Kernels are compiled for one kind of GPU: that of this machine, or without a GPU to PTX, which is never run here. An
# existing build folder keeps its setting.
cuda_flags() {
  if [ -e "$(folder_of "$1")/CMakeCache.txt" ]; then return; fi
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .) || true
  if [[ $capability =~ ^[0-9]+$ ]]; then
    echo "-DCMAKE_CUDA_ARCHITECTURES=$capability"
  else
    echo -DCMAKE_CUDA_ARCHITECTURES=90-virtual
  fi
}

summaries=()
status=0
# run NAME COMMAND…: runs a test command and records its summary. The script continues when the command fails.
run() {
  local name=$1 log=$logs/$1
  shift
  echo "test.sh: $name: $*"
  if ! "$@" 2>&1 | tee "$log"; then
    status=1
  fi
  summaries+=("$name: $(grep -E '^[0-9]+% tests passed|^No tests were found' "$log" || echo failed)")
  phase "run $name"
}
# run_tests NAME FOLDER ARGUMENTS…: runs CTest. PROCESSORS in tests/CMakeLists.txt is the number of half cores that a test
# keeps busy; for a test that mostly waits it is one, and three of these run at a time. Three slots more than there are
# half cores keep the cores busy meanwhile.
run_tests() {
  local name=$1 folder=$2
  shift 2
  run "$name" ctest --test-dir "$folder" -j $((2 * jobs + 3)) --output-on-failure --no-tests=error "$@"
}

# Build everything before running anything, so that a broken build is reported early.
for preset in "${presets[@]}"; do
  folder=$(folder_of "$preset")
  echo "test.sh: building $preset in $folder/"
  programs=ON objects=
  if [ "$preset" != release ] && [ $slow -eq 0 ]; then programs=OFF; fi
  if [ "$preset" = asan ] && [ $slow -eq 0 ]; then objects=$PWD/build; fi
  sanitizers=()
  if [ "$preset" = asan ] && [ $slow -eq 1 ]; then sanitizers=("-DRONDO_SANITIZE=address,undefined,alignment"); fi
  # shellcheck disable=SC2046  # one word or none
  cmake --preset "$preset" "${sanitizers[@]}" -DRONDO_TESTS=ON -DRONDO_EXAMPLES=$programs -DRONDO_TEST_OBJECTS="$objects" \
    -DRONDO_CUDA=AUTO $(cuda_flags "$preset")
  phase "configure $preset"
  cmake --build "$folder" -j "$jobs"
  phase "build $preset"
done

for preset in "${presets[@]}"; do
  exclude=(-LE slow)
  if [ "$preset" = release ]; then
    exclude=(-LE 'slow|other_half') # the sanitized half runs the numbers of ranks that are left out here
    if [ $slow -eq 1 ]; then exclude=(); fi
  fi
  run_tests "$preset" "$(folder_of "$preset")" -L '^(cpu|mpi)$' "${exclude[@]}"
done
if [ $mpich -eq 1 ]; then
  echo "test.sh: building against MPICH in build-mpich/"
  cmake --preset release -B build-mpich -DRONDO_TESTS=ON -DRONDO_CUDA=OFF -DMPI_CXX_COMPILER=mpicxx.mpich
  cmake --build build-mpich -j "$jobs"
  phase "build mpich"
  run_tests mpich build-mpich -L '^mpi$' -LE slow
fi
if [ $fuzz -eq 1 ]; then
  RONDO_FUZZ_ITERATIONS=200000 run_tests fuzz build-asan -L fuzz
  if command -v clang++ >/dev/null; then
    echo "test.sh: building libFuzzer's targets in build-fuzz/"
    cmake --preset fuzz
    cmake --build build-fuzz -j "$jobs"
    phase "build fuzz"
    run_tests libfuzzer build-fuzz -L fuzz
  else
    echo "test.sh: clang++ is not installed, so libFuzzer's targets are skipped (scripts/setup.sh extra installs it)"
  fi
fi
if [ $oracle -eq 1 ]; then
  run oracle ./tests/golden/check.sh build/oracle
fi

echo
echo "test.sh: the ten slowest tests"
for log in "$logs"/*; do
  awk -v build="${log##*/}" '/ Test +#/ && / sec *$/ {
    for (i = 1; i <= NF; ++i) if ($i ~ /^#/) name = $(i + 1)
    print $(NF - 1), name, build
  }' "$log"
done | sort -rn | awk 'NR <= 10 { printf "%7.1f s  %s (%s)\n", $1, $2, $3 }'
echo "test.sh: the time of each phase"
printf '%s\n' "${phases[@]}"
printf '%5d s  all\n' "$SECONDS"
echo "test.sh: summary"
printf '%s\n' "${summaries[@]}"
exit $status
