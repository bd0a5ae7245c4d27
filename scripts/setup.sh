#!/usr/bin/env bash
# Installs what rondo needs from the packages of Debian 12 or 13, or Ubuntu 24.04, and nothing else.
#
#   scripts/setup.sh [core|test|extra]
#
# core   what building and training need (the default)
# test   core, and what scripts/test.sh needs
# extra  test, and what developers like to have: formatter, linter, documentation, compiler cache,
#        Python for the PyTorch oracle and peer benchmarks
#
# When everything is there it says so and touches nothing. Else it says what is missing and why, and
# installs it with apt-get, as root or through sudo. This is the only list of packages in rondo. Not in it is
# openssh-server, which scripts/kubernetes_local.sh needs: it would open the machine to logins.
set -euo pipefail

tier=${1:-core}
case $tier in
core | test | extra) ;;
*)
  echo "setup.sh: unknown tier '$tier'; there are core, test and extra" >&2
  exit 2
  ;;
esac

# tier package why
packages() {
  cat <<'LIST'
core g++ the C++20 compiler and its OpenMP
core cmake configures the build
core ninja-build builds
core libdnnl-dev oneDNN: convolutions and matrix products on the CPU
core libopenmpi-dev MPI: training on several ranks
core openmpi-bin mpirun
core libcli11-dev command lines of the examples and benchmarks
core nlohmann-json3-dev JSON: metrics, checkpoints, manifests
core libfmt-dev text formatting
core libarchive-dev unpacks downloaded data sets
core libcurl4-openssl-dev downloads data sets
core libssl-dev checksums of downloads and parameters; ranks prove to each other who they are
core libjpeg-dev JPEG: data sets of pictures in files
core libpng-dev PNG: data sets of pictures in files
core zlib1g-dev reads gzipped data and weights
core libprotobuf-dev protocol buffers: files for TensorBoard, ONNX
core protobuf-compiler protoc
core procps pkill, which stops a run
core ca-certificates lets downloads check who they talk to
core dataset-fashion-mnist what train.sh trains on when CIFAR-10 cannot be downloaded
test libgtest-dev GoogleTest
test libgmock-dev GoogleTest's matchers
test shellcheck checks the shell scripts
test mold links the programs in a tenth of the time
test xz-utils unpacks recorded data
test python3 drives what tests of scripts and simulations stand in for
test iproute2 ip and tc: networks of the hosts that scripts/multihost.sh makes
test libsimgrid-dev simulated clusters: bench/simgrid
extra ccache makes rebuilding quick
extra clang-format formats the sources
extra clang-tidy lints the sources
extra clang the other compiler, for libFuzzer
extra libclang-rt-dev libFuzzer and the sanitizers of clang
extra libomp-dev OpenMP of clang
extra doxygen the API reference
extra python3-venv virtual environments of the PyTorch oracle and peer benchmarks
extra python3-matplotlib the figure of bench/simgrid/scaling.py
extra python3-dev headers that torch.compile compiles against
extra slurm-wlm a Slurm of two nodes on this machine: scripts/slurm_local.sh
extra munge how Slurm's daemons trust each other
extra python3-yaml reads deploy/mpijob.yaml: scripts/kubernetes_local.sh
extra chromium opens the page that --report writes, in a test
extra mpich the other MPI: its mpirun
extra libmpich-dev the other MPI, to build against
extra bochs a processor with AVX-512 where there is none: scripts/emulate.sh
extra bochsbios the BIOS of that
extra vgabios the BIOS of its screen
extra busybox-static all other programs there
extra cpio the files there
extra grub-pc-bin boots it
extra grub-common makes the CD that it boots from
extra xorriso writes that CD
extra mtools its boot sector
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
    echo "setup.sh: this is neither Debian nor Ubuntu, so nothing is installed. rondo needs what these"
    echo "packages hold there; CMake will say what it does not find:"
    wanted | awk '{ printf "  %-24s", $2; for (i = 3; i <= NF; ++i) printf " %s", $i; print "" }'
  } >&2
  exit 0
fi

installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
reasons=()
while read -r _ package why; do
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
      echo "setup.sh: installing them needs root, and there is no sudo here. Ask someone who is root to run:"
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
