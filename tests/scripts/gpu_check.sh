#!/usr/bin/env bash
# gpu_check.sh ROOT: runs scripts/gpu_check.sh with a bundle of dummy programs and a dummy nvidia-smi. Checks what
# it runs, what it writes, and how it handles a failing test.
set -u
root=$1
command -v python3 >/dev/null || exit 0 # it writes the report
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*"
  cat "$work/log"
  exit 1
}
mkdir -p "$work"/{path,rondo-gpu/{bin,lib/c,scripts,bench/peers}}
stub() { # FILE; the body is standard input
  { echo '#!/bin/sh' && cat; } >"$1" && chmod +x "$1"
}
stub "$work/path/nvidia-smi" <<'END'
case $1 in *name*) echo "NVIDIA H200" && echo "NVIDIA H200" ;; *) echo "580.1, 143771 MiB, 1980 MHz, 3201 MHz" ;; esac
END
stub "$work/path/mpirun" <<'END'
[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1.4" && exit 0
while [ $# -gt 0 ]; do [ "$1" = --json ] && out=$2; shift; done
echo '{"world_size": 2, "rows": [{"algorithm": "nccl", "bytes": 1048576, "seconds": 0.001, "bus_gb_s": 1.05}]}' >"$out"
END
stub "$work/path/compute-sanitizer" <<'END'
exit 0
END
bundle=$work/rondo-gpu
cp "$root"/scripts/gpu_check.sh "$root"/scripts/gpu_report.py "$bundle/scripts/"
: >"$bundle/lib/librondo_none.so"
printf 'one/cuda\ntwo/cuda\n' >"$bundle/gpu_tests.txt"
for test in test_one test_two test_tensor test_dist; do
  stub "$bundle/bin/$test" <<'END'
case "$(basename "$0") $1" in
"test_one --file=one/cuda" | "test_two --file=two/cuda") ;;
"test_tensor --file=tensor/cuda/kernels" | "test_tensor --file=tensor/cuda/smoke" | "test_dist --file=dist/transports/cuda/real_nccl") ;;
*) echo "$0 was started with '$1'" && exit 1 ;;
esac
echo "[==========] 3 tests from 1 test suite ran. (5 ms total)"
[ -z "${RONDO_GPU_PROPERTIES_OUT:-}" ] || echo '{}' >"$RONDO_GPU_PROPERTIES_OUT"
END
done
stub "$bundle/bin/gpu_kernels" <<'END'
[ "$1" = --help ] && exit 0
[ -n "${LD_LIBRARY_PATH:-}" ] && [ -n "${RONDO_TEST_FILES:-}" ] || exit 1
[ -e "$VIRTUAL_ENV"/lib/python3/site-packages/nvidia/cudnn/lib/libcudnn.so.9 ] || exit 1
echo '{"gpu": "a card, cuDNN 9", "copy_bytes_per_s": 4e12, "bandwidth": [{"kernel": "relu f32", "bytes_per_s": 3.6e12,
"of_copy": 0.9}], "matmul": [{"dtype": "bf16", "n": 8192, "flop_per_s": 7e14}],
"attention": [{"kernel": "attention bf16", "flop_per_s": 5e14}]}' >"$2"
END
stub "$bundle/bin/train_step" <<'END'
while [ $# -gt 0 ]; do [ "$1" = --json ] && out=$2; shift; done
echo '{"img_per_s": 20000}' >"$out"
END
stub "$bundle/bin/cifar_resnet" <<'END'
while [ $# -gt 0 ]; do [ "$1" = --json ] && out=$2; shift; done
echo '{"epochs": 18, "test_accuracy": 0.9412}' >"$out"
END
for example in 01_autograd 03_ring 04_fine_tune 05_text 06_quantize; do
  stub "$bundle/bin/$example" <<'END'
[ "$1 $2" = "--device cuda" ]
END
done
# NVIDIA's packages lie where this Python finds them.
mkdir -p "$work/packages/nvidia/cudnn/lib"
: >"$work/packages/nvidia/cudnn/lib/libcudnn.so.9"
run() { PYTHONPATH=$work/packages PATH=$work/path:$PATH PEER_PYTHON=python3 RONDO_DATA=$work "$bundle/scripts/gpu_check.sh" --from "$bundle" --out "$work/out" --seconds 1 "$@" >"$work/log" 2>&1; }

run || fail "status $?"
report=$(echo "$work"/out/*-nvidia-h200.md)
for text in "# NVIDIA H200" "one/cuda passed, " "initcheck passed" "06_quantize --device cuda passed" "94.12 %" \
  "| relu f32 | 3.60 | 90 % |" "| resnet18 | graph | 20000 | 67 | 10 % |" "rondo: a card, cuDNN 9" \
  "All-reduce, 2 GPUs" "| 1048576 | nccl | 1.000 | 1.1 |" "- attention bf16: 500 TFLOP/s"; do
  grep -qF -- "$text" "$report" || fail "the report does not say \"$text\""
done
python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "${report%.md}.json" || fail "the JSON"
[ -s "${report%.md}.properties.json" ] || fail "no device properties"

stub "$bundle/bin/test_two" <<'END'
echo "[  FAILED  ] Two.Two"
exit 1
END
run && fail "a test that fails was not noticed"
grep -qF "two/cuda FAILED" "$work/log" || fail "the test that failed is not named"

run --only smoke,nccl || fail "the stages without the test that fails: status $?"
grep -qF "two/cuda FAILED" "$work"/out/*-nvidia-h200.md || fail "the stages before are no longer in the report"
run --only , && fail "no stage at all"
run --only smoke,all && fail "an unknown stage"
grep -qF -- "--only all: unknown stage; the stages are smoke tests sanitizer numbers bench nccl" "$work/log" || fail "the sentence about the stage"

# The sanitizer's tools may time out, but their findings are failures.
for ending in "exit 9" "exit 124"; do
  echo "$ending" | stub "$work/path/compute-sanitizer"
  run --only sanitizer
  status=$?
  [ "$ending" = "exit 9" ] && [ $status -eq 0 ] && fail "what the sanitizer found was not noticed"
  [ "$ending" = "exit 124" ] && [ $status -ne 0 ] && fail "a tool that ran out of time failed the check"
done
grep -qF "racecheck did not end: status 124" "$work/log" || fail "a tool that did not end is not named"

stub "$bundle/bin/test_two" <<'END'
sleep 1000
END
sed -i 's/program 240/program 1/' "$bundle/scripts/gpu_check.sh"
run --only tests && fail "a test that does not end"
grep -qF "two/cuda FAILED: ended after" "$work/log" || fail "the test that did not end is not named"
cp "$root/scripts/gpu_check.sh" "$bundle/scripts/"

stub "$bundle/bin/test_two" <<'END'
exit 0
END
stub "$bundle/bin/05_text" <<'END'
echo "error: no" && exit 1
END
run && fail "an example that fails was not noticed"
grep -qF "05_text --device cuda FAILED" "$work/log" || fail "the example that failed is not named"

# A stage has a limit of its own: what it has not begun by then is not run.
stub "$bundle/bin/test_tensor" <<'END'
sleep 1000
END
sed -i 's/stage_limit=480/stage_limit=2/' "$bundle/scripts/gpu_check.sh"
run --only smoke && fail "a stage that takes too long"
grep -qE "dist/transports/cuda/real_nccl FAILED: ended after [01] s" "$work/log" || fail "what was not run is not named"
grep -qF "not run: the stage has taken its 2 s" "$work/log" || fail "the reason is not named"
cp "$root/scripts/gpu_check.sh" "$bundle/scripts/"

PATH=$work/path:$PATH "$bundle/scripts/gpu_check.sh" --from "$work/path" >"$work/log" 2>&1 && fail "a folder that is not a bundle"
grep -qF "bin/gpu_kernels is missing; make the folder with --bundle" "$work/log" || fail "the sentence about the folder"
"$root/scripts/gpu_check.sh" --everything >"$work/log" 2>&1 && fail "an unknown argument"
"$root/scripts/gpu_check.sh" --out >"$work/log" 2>&1 && fail "an argument without its value"
exit 0
