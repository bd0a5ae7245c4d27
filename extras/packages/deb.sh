#!/usr/bin/env bash
# Makes Debian packages of this checkout: librondo, librondo-dev and rondo-tools.
#
#   DEBFULLNAME=NAME DEBEMAIL=ADDRESS extras/packages/deb.sh [FOLDER]
#
# The packages are written to FOLDER, or to build-deb/packages/. Name and address are those of their maintainer, as for
# Debian's own tools. The libraries are shared ones without CUDA, which Debian's packages do not have. If lintian is
# installed, it checks the packages.
#
# It needs the packages of `scripts/setup.sh core`, dpkg-dev, fakeroot and help2man. Exit status: 0 only if all
# packages were made and lintian has no complaint.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/help.sh"
at_most 1 "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$PWD/build-deb
out=$(realpath -m "${1:-$build/packages}")

fail() {
  echo "deb.sh: $*" >&2
  exit 2
}
if [ -z "${DEBFULLNAME:-}" ] || [ -z "${DEBEMAIL:-}" ]; then
  fail "the packages need a maintainer: set DEBFULLNAME to a name and DEBEMAIL to an address"
fi
for tool in dpkg-shlibdeps:dpkg-dev fakeroot:fakeroot help2man:help2man; do
  command -v "${tool%:*}" >/dev/null || fail "${tool%:*} is missing: apt-get install ${tool#*:}"
done

files=$build/debian
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON \
  -DBUILD_SHARED_LIBS=ON -DRONDO_TESTS=OFF -DRONDO_BENCH=OFF -DRONDO_EXAMPLES=ON -DRONDO_CUDA=OFF \
  -DRONDO_DEB_FILES="$files" -DCPACK_PACKAGE_DIRECTORY="$out"
cmake --build "$build" -j "$(nproc)"
tests/consumer/symbols.sh "$build/lib"

rm -rf "$files"
version=$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")$/\1/p' "$build/CPackConfig.cmake")
date=$(git log -1 --format=%cD 2>/dev/null || date -R)
# documents COMPONENT PACKAGE: the licence, the changes, and lintian's tags that do not apply.
documents() {
  local folder=$files/$1/doc/$2
  mkdir -p "$folder"
  cp LICENSE "$folder/copyright"
  gzip -9n <CHANGELOG.md >"$folder/changelog.gz"
  printf 'rondo (%s-1) unstable; urgency=medium\n\n  * %s\n\n -- %s <%s>  %s\n' "$version" \
    "See changelog.gz." "$DEBFULLNAME" "$DEBEMAIL" "$date" | gzip -9n >"$folder/changelog.Debian.gz"
  mkdir -p "$files/$1/lintian/overrides"
  {
    echo "# These packages are made from a checkout and were never asked for in Debian's list of bugs."
    echo "$2: initial-upload-closes-no-bugs *"
    if [ "$1" = runtime ]; then
      echo "# One package has all libraries of rondo, whose version is that of the package."
      echo "$2: package-name-doesnt-match-sonames *"
      echo "# CPack calls ldconfig in addition to the trigger."
      echo "$2: maintscript-calls-ldconfig *"
    fi
  } >"$files/$1/lintian/overrides/$2"
}
documents runtime librondo
documents development librondo-dev
documents tools rondo-tools
manuals=$files/tools/man/man1
mkdir -p "$manuals"
while read -r program what; do
  help2man --no-info --no-discard-stderr --version-string="$version" --name="$what" "$build/bin/$program" |
    gzip -9n >"$manuals/$program.1.gz"
done <<'LIST'
rondo-doctor examines a machine for training with rondo
rondo-weights lists, compares and converts files of weights
rondo-data downloads and lists data sets
LIST

(cd "$build" && fakeroot cpack -G DEB)
if command -v lintian >/dev/null; then
  lintian --fail-on error,warning --suppress-tags bad-distribution-in-changes-file "$out"/*.deb
else
  echo "deb.sh: lintian is not installed, so the packages were not checked"
fi
ls -l "$out"/*.deb
