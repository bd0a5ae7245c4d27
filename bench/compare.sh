#!/usr/bin/env bash
# Measures rondo and PyTorch on this machine, alternately in one run.
#
#   bench/compare.sh [--rows LIST] [--rounds N] [--seconds S] [--threads N] [--json FILE]
#   bench/compare.sh --rows train:resnet,infer --rounds 3
#   bench/compare.sh --models resnet20,resnet18 [--dtype f32|bf16] [--batch N] [--infer] [--device cuda]
#
# Rows (bench/peers/rows.py, with the goals): training and inference steps, loading with augmentation, all-reduce,
# start-up to the first step, peak memory, single ops (op: forward, grad: with backward). PyTorch is installed from
# PyPI into a virtual environment, build/peers, unless $PEER_PYTHON names a Python that has it. For each row the script
# first tries PyTorch's settings (memory layout, torch.compile, …). Then the fastest of them and rondo stay in memory
# and are measured in short turns, so that other load on the machine affects both alike.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/help.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for program in train_step ops data_loading all_reduce; do
  [ -x build/bin/$program ] || {
    echo "compare.sh: build/bin/$program is missing: cmake --preset release && cmake --build --preset release" >&2
    exit 1
  }
done
python=${PEER_PYTHON:-$(bench/peers/setup.sh build/peers)}
exec "$python" bench/peers/compare.py "$@"
