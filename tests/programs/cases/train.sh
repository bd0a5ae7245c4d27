# One process: JSON, checkpoint, metrics, evaluation and prediction from the checkpoint.
use_few_images
succeeds "$bin/fashion_mlp" --epochs 2 --limit 3000 --checkpoint-dir out --json result.json
[ "$(field model result.json)" = mlp ] || fail "model in result.json"
[ "$(field world_size result.json)" = 1 ] || fail "world_size in result.json"
[ "$(wc -l <out/metrics.jsonl)" = 2 ] || fail "metrics.jsonl does not have a line an epoch"
# Exports the checkpoint to ONNX.
if "$bin/fashion_mlp" --limit 100 --checkpoint-dir out --export-onnx mlp.onnx --eval --json exported.json >/dev/null 2>"$log"; then
  grep -qa linear_relu_stack.0.weight mlp.onnx || fail "mlp.onnx has no linear_relu_stack.0.weight"
  [ "$(field epochs exported.json)" = 0 ] || fail "--export-onnx trains"
else
  grep -q 'built without protobuf' "$log" || fail "--export-onnx neither writes nor says why not"
fi
fails_saying "cannot write nowhere/mlp.onnx" "$bin/fashion_mlp" --limit 100 --checkpoint-dir out --export-onnx nowhere/mlp.onnx
# Results may go into the run's own folder, which does not exist yet.
succeeds "$bin/fashion_mlp" --limit 128 --epochs 1 --checkpoint-dir fresh --json fresh/result.json --profile ./fresh/trace.json
[ -s fresh/result.json ] && [ -s fresh/trace.json ] || fail "nothing in fresh/"
# Logs for other programs.
logs=(--limit 640 --batch 64 --async-checkpoints --csv logs/run.csv --tensorboard logs/board --checkpoint-dir logged)
if "$bin/fashion_mlp" --limit 640 --epochs 1 --checkpoint-dir probe --tensorboard probe/board >/dev/null 2>"$log"; then
  succeeds "${mpirun[@]}" -np 2 "$bin/fashion_mlp" --epochs 3 "${logs[@]}"
  [ "$(wc -l <logs/run.csv)" = 4 ] && [ "$(head -c 11 logs/run.csv)" = epoch,step, ] ||
    fail "logs/run.csv does not have a header and a line an epoch"
  [ "$(cat logs/board/* | strings | grep -c test_accuracy)" = 3 ] || fail "no curve of 3 points in logs/board"
  [ "$(cat logs/board/* | strings | grep -c weight)" -ge 3 ] || fail "no histogram of the weights in logs/board"
  printf 'no table\n' >logs/other.csv
  fails_saying "logs/other.csv: its first column is not epoch" \
    "${mpirun[@]}" -np 2 "$bin/fashion_mlp" "${logs[@]}" --epochs 1 --csv logs/other.csv
  [ -e logged/checkpoint.safetensors ] || fail "a run was moved aside for one that could not start"
  succeeds "$bin/fashion_mlp" "${logs[@]}" --epochs 1 --csv bare.csv
  succeeds "$bin/fashion_mlp" "${logs[@]}" --epochs 2 --csv bare.csv
  [ "$(wc -l <bare.csv.previous-1)" = 2 ] && [ "$(wc -l <bare.csv)" = 3 ] || fail "a new run has lost the table of the one before"
  fails_saying "result.json is not a writable folder" \
    "$bin/fashion_mlp" "${logs[@]}" --epochs 1 --tensorboard result.json/x
else
  grep -q 'built without protobuf' "$log" || fail "--tensorboard neither writes nor says why not"
fi
correct=$(field test_correct result.json)
[ "$correct" -gt 2000 ] || fail "only $correct of 3000 correct after two epochs"
succeeds "$bin/fashion_mlp" --epochs 2 --limit 3000 --amp bf16 --checkpoint-dir amp --json amp.json
[ "$(field test_correct amp.json)" -gt 2000 ] || fail "--amp bf16: only $(field test_correct amp.json) of 3000 correct"
[ "$(field param_hash amp.json)" != "$(field param_hash result.json)" ] || fail "--amp bf16 computes as f32 does"
fails_saying "this one has --amp unset" "$bin/fashion_mlp" --epochs 2 --limit 3000 --checkpoint-dir amp --resume
succeeds "$bin/fashion_mlp" --eval --limit 3000 --checkpoint-dir out --json eval.json
[ "$(field test_correct eval.json)" = "$correct" ] || fail "--eval counts otherwise"
[ "$(field param_hash eval.json)" = "$(field param_hash result.json)" ] || fail "--eval has other weights"
succeeds "$bin/fashion_mlp" --summary --limit 10
grep -q '^669,706 parameters' "$log" || fail "--summary does not count the MLP's parameters"
[ -e out/best.safetensors ] && [ "$(ls out/kept | wc -l)" = 2 ] || fail "best.safetensors and two kept checkpoints are not there"
succeeds "$bin/fashion_mlp" --epochs 2 --limit 3000 --checkpoint-dir out --resume
! ls out/*.tmp 2>/dev/null || fail "a finished run that is resumed leaves something unfinished"
# A damaged byte in the newest checkpoint: the previous one is used, and the run has the same result.
succeeds "$bin/fashion_mlp" --epochs 2 --limit 3000 --checkpoint-dir hurt
printf x | dd of=hurt/checkpoint.safetensors bs=1 seek=9000 conv=notrunc status=none
succeeds "$bin/fashion_mlp" --epochs 2 --limit 3000 --checkpoint-dir hurt --resume --json hurt.json
grep -q 'warning: .*hurt/checkpoint.safetensors.*; using the previous one' "$log" || fail "the damage is not told"
[ "$(field param_hash hurt.json)" = "$(field param_hash result.json)" ] || fail "from the one before the run ends elsewhere"
{ printf 'P5\n# a grey picture\n28 28\n255\n' && head -c 784 /dev/zero; } >zero.ppm
succeeds "$bin/fashion_mlp" --predict zero.ppm --checkpoint-dir out
grep -q '^zero.ppm: .* %' "$log" || fail "--predict names no class"
timeout 60 "$bin/fashion_mlp" --epochs 1 --limit 500 --checkpoint-dir out2 --json - 2>/dev/null >json ||
  fail "--json -"
[ "$(wc -l <json)" = 1 ] || fail "--json - writes more than the object to standard output"
