#!/bin/sh
# help.sh ROOT PYTHON: does every script of scripts/, docs/, bench/ and extras/ print its help for --help, and does it
# refuse an unknown argument with a sentence and status 2?
cd "$1" || exit 2
python=$2
status=0
fault() {
  echo "$*"
  status=1
}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
# begins COMMAND…: the command in a shell, killed if it does something that lasts.
begins() {
  timeout -k 1 20 "$@" >"$out" 2>&1 </dev/null
}
for script in $(find scripts docs bench extras -name '*.sh' -o -name '*.py' | sort); do
  case $script in
  scripts/help.sh | scripts/within.sh) continue ;; # parts of other scripts
  docs/conf.py | extras/packages/*.py) continue ;; # read by other programs
  bench/peers/*.py) continue ;;                    # need PyTorch
  *.py) run="$python $script" ;;
  *) run="bash $script" ;;
  esac
  # shellcheck disable=SC2086 # two words
  begins $run --help || fault "$script --help ends with status $?: $(cat "$out")"
  grep -q "$(basename "$script" | sed 's/\./[.]/g')" "$out" || fault "$script --help does not name the script: $(cat "$out")"
  case $script in bench/compare*.sh | scripts/train.sh) continue ;; esac # another program refuses their arguments
  # shellcheck disable=SC2086
  begins $run --no-such-argument
  said=$?
  [ $said -eq 2 ] || fault "$script --no-such-argument ends with status $said, not 2: $(cat "$out")"
  grep -Eq "no-such-argument|arguments are required" "$out" || fault "$script does not name the argument that it refuses: $(cat "$out")"
done
exit $status
