# `kill -STOP` of a rank: the others name it at the deadline.
use_few_images
RONDO_FLIGHT_RECORD=$work/record "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 50 --timeout 5 --checkpoint-dir "$work/stopped" --checkpoint-every 1 >"$log" 2>&1 &
pid=$!
until_checkpoint
hung=$(process_of 1 $pid)
kill -STOP "$hung"
for _ in $(seq 300); do
  kill -0 $pid 2>/dev/null || break
  sleep 0.1
done
kill -KILL "$hung" 2>/dev/null
wait $pid && fail "a hung run must not report success"
grep -q "gave up after 5 s of waiting for rank 1 to" "$log" || fail "nobody says that rank 1 hangs"
grep -q "^all_reduce .* of bucket .* (.*): issued .* done$" record/rank0.txt || fail "no record of the collectives before"
tail -n 1 record/rank0.txt | grep -q ", failed$" || fail "the record does not end with what failed"
