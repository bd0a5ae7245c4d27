#!/usr/bin/env bash
# Runs README's two commands on another release of Debian or Ubuntu: in a separate minimal system, from a clean clone of
# this repository's last commit, and without the packages that are installed on this machine.
#
#   scripts/in_root.sh SYSTEM                 both commands; the last line of output is the system's row in README's table
#   scripts/in_root.sh --slow SYSTEM          scripts/test.sh --slow instead of scripts/test.sh
#   scripts/in_root.sh SYSTEM -- COMMAND…     runs COMMAND in the clone instead, such as bash for a shell
#   scripts/in_root.sh --root DIR SYSTEM …    makes the system in DIR, or uses the system in DIR, and keeps it
#
# SYSTEM: debian12, debian13, ubuntu24.04, ubuntu26.04. Packages come from the mirror that this machine uses (for Ubuntu
# from $RONDO_UBUNTU_MIRROR), or from the distribution's own. The folder of RONDO_DATA is available inside. The script
# needs root, debootstrap and 10 GB in $TMPDIR or /var/tmp. Its mounts are in a namespace of their own and end with it.
# Exit status: that of the commands.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/help.sh"
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() {
  echo "in_root.sh: $*" >&2
  exit 2
}

slow='' root='' system=
while [ $# -gt 0 ]; do
  case $1 in
  --slow) slow=--slow ;;
  --root) root=${2:?in_root.sh: --root needs a folder} && shift ;;
  --) shift && break ;;
  -*) fail "unknown argument '$1'; the flags are --slow and --root" ;;
  *) [ -z "$system" ] || fail "two systems were given, '$system' and '$1'; put a command after --" && system=$1 ;;
  esac
  shift
done
# shellcheck disable=SC2016 # for apt-get
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep '/debian/*$' | head -n 1) || true
case $system in
debian12) suite=bookworm ;;
debian13) suite=trixie ;;
ubuntu24.04) suite=noble ;;
ubuntu26.04) suite=resolute ;;
*) fail "unknown system '$system'; the systems are debian12, debian13, ubuntu24.04 and ubuntu26.04" ;;
esac
[ "$(id -u)" -eq 0 ] || fail "making a system needs root: sudo scripts/in_root.sh $system"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

if [ -z "$root" ]; then
  root=$(mktemp -d "${TMPDIR:-/var/tmp}/rondo-$system.XXXXXX")
  trap 'rm -rf --one-file-system "$root"' EXIT
fi
mkdir -p "$root" && root=$(realpath "$root")
if [ -e "$root/.in_root" ]; then
  [ "$(cat "$root/.in_root")" = "$system" ] || fail "$root is $(cat "$root/.in_root"), not $system"
else
  components=main script=()
  case $system in ubuntu*)
    components=main,universe mirror=${RONDO_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
    script=(gutsy) # all releases since then have one script; an older debootstrap does not know the newer names
    ;;
  esac
  debootstrap --variant=minbase --components=$components "$suite" "$root" ${mirror:+"$mirror" "${script[@]}"} ||
    fail "debootstrap could not make $suite from ${mirror:-its own mirror}"
  # The settings with which this machine reaches its mirror: names, certificates, proxies. (debootstrap's Debian 12 has no
  # hosts file, as installed systems do: each look-up of localhost would take seconds.)
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  if [ -d /etc/ssl/certs ]; then mkdir -p "$root/etc/ssl" && { cp -rL /etc/ssl/certs "$root/etc/ssl/" || true; }; fi
  apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/00host" || true
  if [ -d /etc/apt/auth.conf.d ]; then cp -r /etc/apt/auth.conf.d "$root/etc/apt/"; fi
  echo "$system" >"$root/.in_root"
fi
rm -rf "$root/root/rondo"
git clone -q --no-hardlinks "$repository" "$root/root/rondo"

data=${RONDO_DATA:-} commit=$(git -C "$repository" rev-parse --short=8 HEAD)
# Runs the two commands, and prints their times and the versions of the system.
# shellcheck disable=SC2016 # for the shell inside
both='
begin=$SECONDS
./scripts/train.sh --epochs 1 || exit
trained=$SECONDS
./scripts/test.sh '$slow' | tee /root/tests.log
status=${PIPESTATUS[0]}
version() { dpkg-query -W -f="\${Version}" "$1" | sed "s/^[0-9]*://; s/[-+].*//"; }
# passed BUILD: how many of its tests passed, from the last lines of test.sh
passed() { sed -nE "s/^$1: .*% tests passed, ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/p" /root/tests.log | while read -r failed all; do echo "$((all - failed)) of $all"; done; }
skipped=$(grep -c "[*][*][*]Skipped" /root/tests.log)
. /etc/os-release
echo
echo "| $PRETTY_NAME | GCC $(gcc -dumpfullversion) | Open MPI $(version libopenmpi-dev) | oneDNN $(version libdnnl-dev) | $(((trained - begin) / 60)) min | $(((SECONDS - trained) / 60)) min; $(passed release) tests, $(passed asan) sanitized ($skipped skipped in all)$([ $status -eq 0 ] || echo ", FAILED") | '$commit', $(date +%F) |"
exit $status'
command=("$@")
[ $# -gt 0 ] || command=(bash -c "$both")

# shellcheck disable=SC2016 # the inner shell's arguments
unshare --mount --pid --fork --kill-child bash -c '
set -euo pipefail
root=$1 data=$2 && shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
variables=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM="${TERM:-dumb}")
if [ -n "$data" ]; then
  mkdir -p "$root/mnt/data"
  mount --bind "$data" "$root/mnt/data"
  variables+=(RONDO_DATA=/mnt/data)
fi
for name in http_proxy https_proxy no_proxy; do
  [ -z "${!name:-}" ] || variables+=("$name=${!name}")
done
# pivot_root, not chroot: programs inside make namespaces of their own (extras/cluster/multihost.sh), which would start at the
# root of the host.
cd "$root" && mkdir -p .host && pivot_root . .host && umount -l .host && rmdir .host
exec /usr/bin/env -i "${variables[@]}" bash -c '"'"'cd /root/rondo && exec "$@"'"'"' in_root "$@"
' in_root "$root" "$data" "${command[@]}"
