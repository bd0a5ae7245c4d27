#!/bin/sh
# check.sh ROOT: do the shell scripts parse, are they executable, and do they refuse bad arguments?
cd "$1" || exit 2
status=0
for script in scripts/*.sh extras/*/*.sh extras/*/*.sbatch .ci/run bench/peers/*.sh bench/*.sh tests/golden/*.sh tests/extras/*/*.sh; do
  [ -e "$script" ] || continue
  bash -n "$script" || status=1
  [ -x "$script" ] || { echo "$script is not executable"; status=1; }
  if command -v shellcheck >/dev/null; then shellcheck -x "$script" || status=1; fi
done
if scripts/setup.sh everything 2>/dev/null; then echo "setup.sh accepts the tier 'everything'"; status=1; fi
if scripts/test.sh --everything 2>/dev/null; then echo "test.sh accepts --everything"; status=1; fi
# Without apt-get it must say what to install instead.
elsewhere=$(mktemp -d)
for program in bash awk grep cat dirname; do ln -s "$(command -v $program)" "$elsewhere"; done
printf '#!/bin/sh\n' >"$elsewhere/dnf" && chmod +x "$elsewhere/dnf"
PATH=$elsewhere bash scripts/setup.sh 2>&1 | grep -q "dnf install .* onednn-devel" || { echo "setup.sh lists no packages for dnf"; status=1; }
rm -r "$elsewhere"
exit $status
