# Stopped by SIGTERM in mid-epoch, then resumed: bit-identical to a run that was not stopped.
# Cases: resume, resume_average, resume_outer, resume_async, resume_topk, resume_powersgd, resume_zero.
use_few_images
# The ranks get the signal directly, because mpirun would forward it only after seconds.
sync=()
case $case in
resume_average) sync=(--sync average --average-every 3) ;;
resume_outer) sync=(--sync average --average-every 3 --average-warmup 3 --outer-lr 0.7 --outer-momentum 0.9) ;;
resume_async) sync=(--sync average --average-every 3 --average-async) ;;
resume_topk) sync=(--compress topk:0.05) ;;
resume_powersgd) sync=(--compress powersgd) ;;
resume_zero) sync=(--zero --accumulate 2) ;;
esac
run=("${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 8 "${sync[@]}")
succeeds "${run[@]}" --checkpoint-dir straight --json straight.json
timeout 200 "${run[@]}" --checkpoint-every 1 --checkpoint-dir "$work/stopped" >"$log" 2>&1 &
pid=$!
until_checkpoint
stop_ranks 2 "$(pgrep -P $pid)" # mpirun is timeout's child
wait $pid
status=$?
[ $status -ne 0 ] || fail "a stopped run must not report success"
grep -q "stopped by a signal" "$log" || fail "the signal did not stop the run"
succeeds "${run[@]}" --checkpoint-dir "$work/stopped" --resume --json resumed.json
[ "$(field param_hash straight.json)" = "$(field param_hash resumed.json)" ] || fail "the resumed run has other weights"
[ "$(wc -l <stopped/metrics.jsonl)" = 8 ] || fail "metrics.jsonl does not have a line an epoch"
# Averaging ranks meet only at times, but always at the end of an epoch.
if [ "$case" = resume_average ]; then
  fails_saying "written by 2 ranks that had state of their own" "${mpirun[@]}" -np 1 "${resnet[@]}" --epochs 8 "${sync[@]}" --checkpoint-dir stopped --resume
fi
