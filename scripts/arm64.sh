#!/usr/bin/env bash
# Builds rondo for 64-bit Arm with Debian's cross compiler and its arm64 packages, and runs the tests under QEMU:
# first those labelled cpu and those of two ranks on a processor with NEON only, then those of the kernels on processors
# with SVE of 256 and 512 bits.
#
#   scripts/arm64.sh [TEST]
#
# With TEST, a regular expression for ctest -R, it runs only the matching tests, on all three processors. QEMU is about
# ten times slower than an Arm processor, so times mean nothing. All files are in build-arm64/, including the packages
# (sysroot/), which are downloaded once. The script needs the packages of scripts/setup.sh extra, and root if the kernel
# does not yet start arm64 programs in QEMU. Exit status: 0 only if every test passed.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
at_most 1 "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$PWD/build-arm64 sysroot=$PWD/build-arm64/sysroot

fail() {
  echo "arm64.sh: $*" >&2
  exit 2
}
for command in aarch64-linux-gnu-g++ qemu-aarch64-static mmdebstrap cmake ninja; do
  command -v $command >/dev/null || fail "$command is missing: scripts/setup.sh extra installs it"
done

# The libraries of setup.sh's list are unpacked, not installed, since none of their programs has to run. Absolute links
# would point outside of the folder, so they are replaced. An installation would link LAPACK and BLAS from their folders.
if [ ! -d "$sysroot" ]; then
  packages=$(sed -nE 's/^(core|test) ([^ ]*-dev) .*/\2/p' scripts/setup.sh | grep -v simgrid | paste -sd,)
  # shellcheck disable=SC2016 # for apt-get
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian/*$' | head -n 1) || true
  mkdir -p "$build" && rm -rf "$sysroot.part"
  suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  # shellcheck disable=SC2016 # for mmdebstrap's shell
  mmdebstrap --variant=extract --architectures=arm64 --include="$packages" --extract-hook='cd "$1"
    find . -type l -lname "/*" | while read -r link; do
      target=.$(readlink "$link")
      [ ! -e "$target" ] || ln -sfnr "$target" "$link"
    done
    for library in usr/lib/*/lapack/lib*.so* usr/lib/*/blas/lib*.so*; do
      ln -sr "$library" "$(dirname "$library")/.."
    done' "$suite" "$sysroot.part" ${mirror:+"$mirror"} ||
    fail "mmdebstrap could not fetch the arm64 packages from ${mirror:-its own mirror}"
  mv "$sysroot.part" "$sysroot"
fi

cmake -S . -B "$build" -G Ninja --toolchain cmake/aarch64.cmake -DCMAKE_BUILD_TYPE=Release -DRONDO_CUDA=OFF
cmake --build "$build"

# Programs start other programs, so the kernel itself must start Arm programs in QEMU.
formats=/proc/sys/fs/binfmt_misc
if [ ! -e $formats/qemu-aarch64 ]; then
  [ "$(id -u)" -eq 0 ] || fail "the kernel does not start arm64 programs in QEMU; run this as root"
  [ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats
  cat /usr/lib/binfmt.d/qemu-aarch64.conf >$formats/register
  trap 'echo -1 >$formats/qemu-aarch64' EXIT
fi
export QEMU_LD_PREFIX=$sysroot CMAKE_TOOLCHAIN_FILE=$PWD/cmake/aarch64.cmake

status=0 passed=0 all=0
# tests PROCESSOR CTEST-ARGUMENT…
tests() {
  echo "arm64.sh: QEMU's $1"
  local log=$build/tests.log result
  # With another length of SVE the tests would use the kernels for NEON again.
  if [[ $1 == max,* ]] && ! QEMU_CPU=$1 "$build/bin/rondo-doctor" --seconds 0 | grep "rondo's kernels: sve$((8 * ${1##*=}))" >/dev/null; then
    fail "on QEMU's $1 rondo does not choose the kernels for its SVE"
  fi
  QEMU_CPU=$1 ctest --test-dir "$build" --output-on-failure -j $((2 * $(nproc))) -LE slow "${@:2}" | tee "$log" || status=1
  result=$(sed -nE 's/^([0-9]+)% tests passed, ([0-9]+) tests failed out of ([0-9]+)/\2 \3/p' "$log")
  [ -n "$result" ] || { status=1 && return; }
  all=$((all + ${result#* })) passed=$((passed + ${result#* } - ${result% *}))
}
neon=cortex-a72 sve256=max,sve-default-vector-length=32 sve512=max,sve-default-vector-length=64
if [ $# -gt 0 ]; then
  for processor in $neon $sve256 $sve512; do tests "$processor" -R "$1"; done
else
  # Not those that compare what programs print with the book's pages: speeds and memory of x86-64.
  tests $neon -L cpu -E '^book/.*_experiments$'
  tests $neon -R '^mpi/.*\.2$'
  # The files of tests/CMakeLists.txt that run with each instruction set.
  for processor in $sve256 $sve512; do
    tests "$processor" -R '^(autograd/(norm|layer_norm|recurrent|extremes|attention_kernel|op_table)|tensor/.*)$' -E generic
  done
fi
echo "arm64.sh: $passed of $all tests passed"
exit $status
