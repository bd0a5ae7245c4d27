#!/usr/bin/env bash
# Installs the packages of Debian 12 or 13, or Ubuntu 24.04 or 26.04, that rondo needs, and nothing else.
#
#   scripts/setup.sh [core|test|extra]
#
# core   packages for building and training (the default)
# test   core, and packages for scripts/test.sh, among them those of the documents
# extra  test, and packages for developers: formatter, linter, compiler cache,
#        Python for the PyTorch oracle and peer benchmarks
#
# If all packages are installed, it says so and changes nothing. Otherwise it lists the missing ones with their
# purpose, and installs them with apt-get, as root or through sudo. This is the only list of packages in rondo. It does
# not contain openssh-server, which extras/cluster/kubernetes_local.sh needs: it would open the machine to logins.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
at_most 1 "$@"

tier=${1:-core}
case $tier in
core | test | extra) ;;
*)
  echo "setup.sh: unknown tier '$tier'; the tiers are core, test and extra" >&2
  exit 2
  ;;
esac

# Columns: tier, package of Debian and Ubuntu, package of RHEL 9 (-: none), purpose
packages() {
  cat <<'LIST'
core g++ gcc-toolset-13 the C++20 compiler and its OpenMP
core cmake cmake configures the build
core ninja-build ninja-build builds
core libdnnl-dev onednn-devel oneDNN: convolutions and matrix products on the CPU
core libopenmpi-dev openmpi-devel MPI: training on several ranks
core openmpi-bin openmpi mpirun
core libcli11-dev cli11-devel command lines of the examples and benchmarks
core nlohmann-json3-dev json-devel JSON: metrics, checkpoints, manifests
core libfmt-dev fmt-devel text formatting
core libarchive-dev libarchive-devel unpacks downloaded data sets
core libcurl4-openssl-dev libcurl-devel downloads data sets
core libssl-dev openssl-devel checksums of downloads and parameters; authentication between ranks
core libjpeg-dev libjpeg-turbo-devel JPEG: data sets of pictures in files
core libpng-dev libpng-devel PNG: data sets of pictures in files
core zlib1g-dev zlib-devel reads gzipped data and weights
core liblapacke-dev lapack-devel LAPACK: inverses and decompositions of matrices
core libhdf5-dev hdf5-devel HDF5: data sets in .h5 files
core libkissfft-dev - KISS FFT: Fourier transforms
core libicu-dev libicu-devel ICU: tokenizers of texts
core libprotobuf-dev protobuf-lite-devel protocol buffers: files for TensorBoard, ONNX
core protobuf-compiler protobuf-devel protoc
core procps procps-ng pkill, which stops a run
core ca-certificates ca-certificates certificates for downloads over https
core dataset-fashion-mnist - data set for train.sh if CIFAR-10 cannot be downloaded
test libgtest-dev gtest-devel GoogleTest
test libgmock-dev gmock-devel GoogleTest's matchers
test shellcheck ShellCheck checks the shell scripts
test mold mold links the programs in a tenth of the time
test pkg-config pkgconf-pkg-config flags of an installed rondo
test xz-utils xz unpacks recorded data
test python3 python3 runs stand-ins for programs in tests of scripts, and simulations
test iproute2 iproute-tc ip and tc: networks of the hosts that extras/cluster/multihost.sh makes
test python3-sphinx python3-sphinx the documents as a site: scripts/docs.sh
test python3-myst-parser - Sphinx's reader of Markdown
test furo - the look of the site
test doxygen doxygen the API reference
test libsimgrid-dev - simulated clusters: bench/simgrid
extra ccache ccache makes rebuilding faster
extra clang-format clang-tools-extra formats the sources
extra clang-tidy clang-tools-extra lints the sources
extra clang clang the other compiler, for libFuzzer
extra libclang-rt-dev compiler-rt libFuzzer and the sanitizers of clang
extra libomp-dev libomp-devel OpenMP of clang
extra python3-venv python3 virtual environments of the PyTorch oracle and peer benchmarks
extra python3-matplotlib python3-matplotlib the figure of bench/simgrid/scaling.py
extra python3-dev python3-devel headers that torch.compile compiles against
extra slurm-wlm slurm a Slurm of two nodes on this machine: extras/cluster/slurm_local.sh
extra munge munge authentication between Slurm's daemons
extra python3-yaml python3-pyyaml reads extras/cluster/mpijob.yaml: extras/cluster/kubernetes_local.sh
extra chromium chromium opens the pages that --report and docs/book/step.py write, in tests
extra mpich mpich the other MPI: its mpirun
extra libmpich-dev mpich-devel the other MPI, to build against
extra bochs - emulates a processor with AVX-512: extras/emulators/emulate.sh
extra bochsbios - the BIOS of the emulated machine
extra vgabios - the BIOS of its screen
extra busybox-static - all other programs in it
extra cpio cpio its initial file system
extra grub-pc-bin - its boot loader
extra grub-common - makes the CD that it boots from
extra xorriso xorriso writes that CD
extra mtools mtools its boot sector
extra g++-aarch64-linux-gnu - the compiler for 64-bit Arm: scripts/arm64.sh
extra qemu-user-static - runs programs for 64-bit Arm
extra mmdebstrap - unpacks the libraries for 64-bit Arm
LIST
}

wanted() {
  case $tier in
  core) packages | grep '^core ' ;;
  test) packages | grep -E '^(core|test) ' ;;
  extra) packages ;;
  esac
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  {
    echo "setup.sh: this system is neither Debian nor Ubuntu, so nothing is installed. rondo needs the contents of"
    echo "these Debian packages; CMake will name what it does not find:"
    wanted | awk '{ printf "  %-24s", $2; for (i = 4; i <= NF; ++i) printf " %s", $i; print "" }'
    if command -v dnf >/dev/null; then
      echo "setup.sh: on RHEL 9 and similar systems these packages should be enough, but rondo has not been run there:"
      echo "  dnf install epel-release && dnf config-manager --set-enabled crb"
      # shellcheck disable=SC2046 # one word each
      echo "  dnf install" $(wanted | awk '$3 != "-" && !seen[$3]++ { print $3 }')
      echo "  source /opt/rh/gcc-toolset-13/enable && module load mpi/openmpi-x86_64    # in each shell"
    fi
  } >&2
  exit 0
fi

installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
reasons=()
while read -r _ package _ why; do
  if ! installed "$package"; then
    missing+=("$package")
    reasons+=("$(printf '  %-24s %s' "$package" "$why")")
  fi
done < <(wanted)

if [ ${#missing[@]} -eq 0 ]; then
  echo "setup.sh: all packages of tier $tier are installed"
  exit 0
fi

echo "setup.sh: these packages are missing:"
printf '%s\n' "${reasons[@]}"

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    {
      echo "setup.sh: installing them needs root, and sudo is missing. As root, run:"
      echo "  apt-get install --no-install-recommends ${missing[*]}"
    } >&2
    exit 1
  fi
  as_root=(sudo)
  echo "setup.sh: installing them with apt-get through sudo (it may ask for your password)"
else
  echo "setup.sh: installing them with apt-get"
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"
}

if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; }; then
  echo "setup.sh: apt-get failed (see above); rondo cannot be built until these are installed: ${missing[*]}" >&2
  exit 1
fi
