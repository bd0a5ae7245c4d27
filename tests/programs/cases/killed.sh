# `kill -9` during a run leaves a checkpoint from which it can resume.
use_few_images
"${resnet[@]}" --epochs 6 --checkpoint-dir straight --json straight.json >"$log" 2>&1 || fail "straight run"
"${resnet[@]}" --epochs 6 --checkpoint-dir stopped --checkpoint-every 1 >"$log" 2>&1 &
pid=$!
until_checkpoint
kill -KILL $pid
wait $pid 2>/dev/null
succeeds "${resnet[@]}" --epochs 6 --checkpoint-dir stopped --resume --json resumed.json
[ "$(field param_hash straight.json)" = "$(field param_hash resumed.json)" ] || fail "the resumed run has other weights"
