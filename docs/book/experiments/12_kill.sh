#!/usr/bin/env bash
# Trains on two ranks, kills one of them, and resumes the run.
#
#   docs/book/experiments/12_kill.sh MPIRUN…    in the clone; MPIRUN is the command before -np
set -u
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/help.sh"
if [ $# -eq 0 ] || [[ $1 == -* ]]; then
  echo "12_kill.sh: expected the command that starts ranks, such as mpirun, not '${1:-}'; --help describes it" >&2
  exit 2
fi
bin=$PWD/build/bin
mpirun=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# Each rank notes its process and writes its errors to a file: after a death mpirun may lose them.
cat >rank <<'END' && chmod +x rank
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
echo $$ >process.$rank
exec "$@" 2>>said.$rank
END
run=("${mpirun[@]}" -np 2 ./rank "$bin/cifar_resnet" --dataset fashion_mnist --limit 192 --batch 24 --epochs 3 --threads 1)
hash_of() { sed -n 's/.*"param_hash": "\(.*\)".*/\1/p' "$1"; }

"${run[@]}" --checkpoint-dir straight --json straight.json >log 2>&1 || exit 1

RONDO_FLIGHT_RECORD=record "${run[@]}" --checkpoint-dir killed --checkpoint-every 1 >>log 2>&1 &
until [ -e killed/checkpoint.safetensors ] || ! kill -0 $! 2>/dev/null; do sleep 0.01; done
kill -KILL "$(cat process.1)"
wait $! && exit 1
echo "rank 0 says:"
grep '^error' said.0
echo "its flight record ends with:"
tail -n 1 record/rank0.txt

"${run[@]}" --checkpoint-dir killed --resume --json resumed.json >>log 2>&1 || exit 1
grep -o '^resum[^;]*' log
[ "$(hash_of straight.json)" = "$(hash_of resumed.json)" ] && echo "the weights are those of a run without a death"
