# 1, 2 and 4 ranks, with 1 or 2 threads: bit-identical; also when stopped on 4 and resumed on 2.
use_few_images
run=("${resnet[@]}" --epochs 6 --reproducible 8)
succeeds "${run[@]}" --checkpoint-dir straight --json straight.json
succeeds "${run[@]}" --threads 2 --checkpoint-dir two --json threads.json
[ "$(field param_hash straight.json)" = "$(field param_hash threads.json)" ] || fail "two threads have other weights"
for ranks in 2 4; do
  succeeds "${mpirun[@]}" -np $ranks "${run[@]}" --checkpoint-dir "ranks$ranks" --json ranks.json
  [ "$(field param_hash straight.json)" = "$(field param_hash ranks.json)" ] || fail "$ranks ranks have other weights"
  [ "$(field test_correct straight.json)" = "$(field test_correct ranks.json)" ] || fail "$ranks ranks count otherwise"
done
timeout 200 "${mpirun[@]}" -np 4 "${run[@]}" --checkpoint-every 1 --checkpoint-dir "$work/stopped" >"$log" 2>&1 &
pid=$!
until_checkpoint
stop_ranks 4 "$(pgrep -P $pid)"
wait $pid
grep -q "stopped by a signal" "$log" || fail "the signal did not stop the run"
succeeds "${mpirun[@]}" -np 2 "${run[@]}" --checkpoint-dir "$work/stopped" --resume --json resumed.json
! grep -q "last digits" "$log" || fail "a reproducible run announces that digits will differ"
[ "$(field param_hash straight.json)" = "$(field param_hash resumed.json)" ] || fail "the resumed run has other weights"
fails_saying "--reproducible 8, this one has --reproducible unset" "${resnet[@]}" --epochs 6 --checkpoint-dir stopped --resume
fails_saying "--reproducible 6: shards must be a power of two" "${resnet[@]}" --reproducible 6
fails_saying "8 shards do not divide by 3 ranks" "${mpirun[@]}" -np 3 "${resnet[@]}" --batch 24 --reproducible 8
fails_saying "a batch of 8 does not divide by 32 shards" "${resnet[@]}" --reproducible 32
fails_saying "--reproducible cannot be combined with --sync average, --compress" "${resnet[@]}" --reproducible 8 --compress bf16
