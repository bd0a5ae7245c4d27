#!/usr/bin/env bash
# check.sh FOLDER: recomputes the goldens with the PyTorch of bench/peers/requirements.txt, in a virtual
# environment in FOLDER, and compares them with the committed ones.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$here/../../bench/peers/setup.sh" "$1")
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
cp "$here"/*.py "$fresh"
for script in "$fresh"/make_*.py; do
  (cd "$fresh" && "$python" "$script")
done
"$python" "$here/compare.py" "$here" "$fresh"
# The other direction: Python loads the files that rondo writes.
weights=$here/../../build/bin/rondo-weights
if [ -x "$weights" ]; then
  "$python" "$here/round_trip.py" "$weights" "$fresh"
fi
# PyTorch resumes from rondo's checkpoints.
tests=$here/../../build/bin/test_extras
if [ -x "$tests" ]; then
  RONDO_ORACLE_FOLDER=$fresh "$tests" --gtest_filter=TorchTraining.WritesWhatPyTorchWrites >/dev/null
  "$python" "$fresh/resume_training.py" "$fresh"
fi
# TensorBoard reads rondo's logs.
program=$here/../../build/bin/fashion_mlp
if [ -x "$program" ] && (cd "$fresh" && "$program" --limit 640 --batch 64 --epochs 2 --checkpoint-dir run --tensorboard board); then
  "$python" - "$fresh/board" <<'END'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
assert [point.step for point in events.Scalars("test_accuracy")] == [10, 20]
assert events.Tags()["graph"] and len(events.Graph().node) > 10
weights = [tag for tag in events.Tags()["histograms"] if tag.endswith("weight")]
assert len(weights) == 3, weights
values = events.Histograms(weights[0])[-1].histogram_value
assert values.num == sum(values.bucket) > 0
END
fi
# ONNX Runtime runs rondo's exported models.
write_models=$here/../../build/bin/write_models
if [ -x "$write_models" ]; then
  PYTHON=$python "$here/../onnx/check.sh" "$write_models" --all
fi
