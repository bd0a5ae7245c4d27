#!/usr/bin/env bash
# Measures data-parallel training by rondo, by PyTorch's DDP over gloo, and by one rondo process with as many
# threads as there are ranks, alternately on this machine in one run.
#
#   bench/compare_ddp.sh [--models LIST] [--dtype f32|bf16] [--batch N] [--ranks N] [--seconds S]
#                        [--rounds N] [--mpirun COMMAND] [--json FILE]
#
# bf16 is autocast on all sides: f32 weights and gradients, forward in bf16. Without --models and --dtype:
# MLP, ResNet-20 and ResNet-18 in f32, and ResNet-20 in bf16.
#
# PyTorch is installed from PyPI into a virtual environment, build/peers, unless $PEER_PYTHON names a Python that
# has it. Needs build/bin/ddp_step and build/bin/train_step.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/help.sh"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for program in ddp_step train_step; do
  [ -x build/bin/$program ] || {
    echo "compare_ddp.sh: build/bin/$program is missing: cmake --preset release && cmake --build --preset release" >&2
    exit 1
  }
done
python=${PEER_PYTHON:-$(bench/peers/setup.sh build/peers)}
exec "$python" bench/peers/compare_ddp.py "$@"
