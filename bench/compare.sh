#!/usr/bin/env bash
# Training steps of rondo and PyTorch, measured alternately on this machine in one go.
#
#   bench/compare.sh [--models LIST] [--dtype f32|bf16] [--batch N] [--threads N] [--seconds S]
#                    [--rounds N] [--infer] [--json FILE]
#   bench/compare.sh --models resnet20,resnet18 --rounds 5
#
# PyTorch comes from PyPI into a virtual environment, build/peers (or is that of $PEER_PYTHON). First its
# best setting is found (memory layout, torch.compile), then both are measured in turns, so that whatever
# else the machine does hits both alike. Needs build/bin/train_step.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -x build/bin/train_step ] || {
  echo "compare.sh: build/bin/train_step is missing: cmake --preset release && cmake --build --preset release" >&2
  exit 1
}
python=${PEER_PYTHON:-$(bench/peers/setup.sh build/peers)}
exec "$python" bench/peers/compare.py "$@"
