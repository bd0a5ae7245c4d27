#!/bin/sh
# recipes.sh ROOT CMAKE PYTHON: the recipes of extras/packages/ are well-formed, and name rondo's version.
set -eu
cd "$1/extras/packages"
version=$(sed -n 's/^#define RONDO_VERSION_[A-Z]* \([0-9][0-9]*\)$/\1/p' ../../tensor/version.h | paste -sd.)
complain() {
  echo "$1"
  exit 1
}
for recipe in spack/package.py easybuild/*.eb conan/conanfile.py; do
  "$3" -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$recipe" || complain "$recipe is not Python"
done
"$3" - "$version" <<'CODE' || complain "vcpkg/vcpkg.json does not name version $version"
import json, sys
port = json.load(open("vcpkg/vcpkg.json"))
sys.exit(port["version"] != sys.argv[1] or port["name"] != "rondo")
CODE
grep -q "^version = '$version'$" easybuild/rondo.eb || complain "easybuild/rondo.eb does not name version $version"
# vcpkg's functions do nothing here; a name that is not theirs is an error.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in vcpkg_cmake_configure vcpkg_cmake_install vcpkg_cmake_config_fixup vcpkg_fixup_pkgconfig vcpkg_install_copyright; do
  printf 'function(%s)\nendfunction()\n' "$name"
done >"$scratch/port.cmake"
echo "include($PWD/vcpkg/portfile.cmake)" >>"$scratch/port.cmake"
"$2" -DCURRENT_PACKAGES_DIR="$scratch" -P "$scratch/port.cmake"
# Conan runs the recipe as far as its export of the sources, if it is installed.
if command -v conan >/dev/null; then
  CONAN_HOME=$scratch/conan conan export conan >"$scratch/export" 2>&1 || complain "conan export: $(tail -n 3 "$scratch/export")"
fi
# Every section of an Apptainer file is one that Apptainer knows, and each stage has its base.
sections=$(sed -n 's/^%\([a-z]*\).*/\1/p' apptainer.def | sort -u)
for section in $sections; do
  case $section in files | post | environment | runscript | test | labels | help) ;; *) complain "apptainer.def: %$section is not a section of Apptainer" ;; esac
done
[ "$(grep -c '^Bootstrap: docker$' apptainer.def)" = "$(grep -c '^From: ' apptainer.def)" ] || complain "apptainer.def: a stage has no base"
awk '/^%post/ { on = 1; next } /^%|^Bootstrap/ { on = 0 } on' apptainer.def >"$scratch/post.sh"
sh -n "$scratch/post.sh" || complain "apptainer.def: %post is not a valid shell script"
# Every line of the Docker file begins with an instruction, every RUN is a valid shell script, and the files to copy exist.
"$3" - ../.. <<'CODE' || complain "cluster/Containerfile is not valid"
import pathlib, subprocess, sys
root = pathlib.Path(sys.argv[1])
lines = (root / "extras/cluster/Containerfile").read_text().splitlines()
text = "\n".join(line for line in lines if not line.lstrip().startswith("#")).replace("\\\n", " ")
for line in filter(str.strip, text.splitlines()):
    instruction, _, rest = line.partition(" ")
    if instruction not in "FROM RUN COPY USER WORKDIR ENV ARG LABEL CMD ENTRYPOINT EXPOSE".split():
        sys.exit(f"{instruction} is not an instruction")
    if instruction == "RUN" and subprocess.run(["sh", "-n", "-c", rest]).returncode:
        sys.exit(f"not a shell script: {rest}")
    if instruction == "COPY" and "--from=" not in rest and not (root / rest.split()[0]).exists():
        sys.exit(f"no such file: {rest.split()[0]}")
CODE
