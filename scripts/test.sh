#!/usr/bin/env bash
# Builds rondo in Release and runs the tests labelled cpu and mpi; then its libraries under ASan + UBSan, with
# the tests of them. The tests themselves are not compiled anew for that, and the programs (ctest -R
# '^(programs|guide)/'), which take as long under sanitizers as all the rest, run in Release only.
#
#   scripts/test.sh [--tsan] [--slow] [--fuzz] [--oracle] [--mpich]
#
# --tsan    the libraries also under ThreadSanitizer, with one OpenMP thread (libgomp is not instrumented)
# --slow    in Release also the tests labelled slow (half an hour: an accuracy, gigabytes over MPI), under
#           sanitizers all that is above: tests sanitized themselves, and the programs (twenty minutes more)
# --fuzz    the fuzz tests with many more mutations, under ASan + UBSan; and where clang is installed
#           libFuzzer's targets in build-fuzz/, each for a minute or RONDO_FUZZ_SECONDS
# --mpich   also a build against MPICH, without CUDA, of which the tests labelled mpi are run
# --oracle  recomputes the goldens with the current PyTorch (from PyPI, in build/oracle) and compares; runs
#           exported models in ONNX Runtime
#
# RONDO_DATA names the folder of real data sets; tests that need one it lacks are skipped and say so.
# Exit status: 0 only if everything was built and passed.
set -euo pipefail
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
    echo "test.sh: unknown argument '$arg'; there are --tsan --slow --fuzz --oracle --mpich" >&2
    exit 2
    ;;
  esac
done

./scripts/setup.sh test
if [ $((oracle + mpich + fuzz)) -gt 0 ]; then
  ./scripts/setup.sh extra
fi

jobs=$(nproc)
launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  # What one clone compiled serves all others: paths below the clone are hashed as relative ones.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi

folder_of() {
  if [ "$1" = release ]; then echo build; else echo "build-$1"; fi
}

summaries=()
status=0
# run NAME COMMAND…: runs a test command, remembers its summary, and goes on when it fails.
run() {
  local name=$1 log
  shift
  log=$(mktemp)
  echo "test.sh: $name: $*"
  if ! "$@" 2>&1 | tee "$log"; then
    status=1
  fi
  summaries+=("$name: $(grep -E '^[0-9]+% tests passed|^No tests were found' "$log" || echo failed)")
  rm -f "$log"
}

# All sides are built before anything is run, so that a broken build is known early.
for preset in "${presets[@]}"; do
  echo "test.sh: building $preset in $(folder_of "$preset")/"
  programs=ON objects=
  if [ "$preset" != release ] && [ $slow -eq 0 ]; then programs=OFF; fi
  if [ "$preset" = asan ] && [ $slow -eq 0 ]; then objects=$PWD/build; fi
  cmake --preset "$preset" -DRONDO_TESTS=ON -DRONDO_EXAMPLES=$programs -DRONDO_TEST_OBJECTS="$objects" \
    -DRONDO_CUDA=AUTO "${launcher[@]}"
  cmake --build "$(folder_of "$preset")" -j "$jobs"
done

for preset in "${presets[@]}"; do
  exclude=(-LE slow)
  if [ $slow -eq 1 ] && [ "$preset" = release ]; then exclude=(); fi
  run "$preset" ctest --test-dir "$(folder_of "$preset")" -L '^(cpu|mpi)$' "${exclude[@]}" \
    -j "$jobs" --output-on-failure --no-tests=error
done
if [ $mpich -eq 1 ]; then
  echo "test.sh: building against MPICH in build-mpich/"
  cmake --preset release -B build-mpich -DRONDO_TESTS=ON -DRONDO_CUDA=OFF \
    -DMPI_CXX_COMPILER=mpicxx.mpich -DMPIEXEC_EXECUTABLE="$(command -v mpirun.mpich)" "${launcher[@]}"
  cmake --build build-mpich -j "$jobs"
  run mpich ctest --test-dir build-mpich -L '^mpi$' -LE slow -j "$jobs" --output-on-failure --no-tests=error
fi
if [ $fuzz -eq 1 ]; then
  run fuzz env RONDO_FUZZ_ITERATIONS=200000 ctest --test-dir build-asan -L fuzz -j "$jobs" \
    --output-on-failure --no-tests=error
  if command -v clang++ >/dev/null; then
    echo "test.sh: building libFuzzer's targets in build-fuzz/"
    cmake --preset fuzz "${launcher[@]}"
    cmake --build build-fuzz -j "$jobs"
    run libfuzzer ctest --test-dir build-fuzz -L fuzz -j "$jobs" --output-on-failure --no-tests=error
  else
    echo "test.sh: no clang++, so libFuzzer's targets are left out (scripts/setup.sh extra installs it)"
  fi
fi
if [ $oracle -eq 1 ]; then
  run oracle ./tests/golden/check.sh build/oracle
fi

echo
echo "test.sh: summary"
printf '%s\n' "${summaries[@]}"
exit $status
