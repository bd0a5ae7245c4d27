# Bad input on several ranks: every rank ends, and the message names the difference.
use_few_images
fails_saying "--batch 49 is not divisible by the 2 ranks" "${mpirun[@]}" -np 2 "${resnet[@]}" --batch 49
fails_saying "--lr 0.2" "${mpirun[@]}" -np 2 ./rank_1 --lr 0.2 -- "${resnet[@]}"
fails_saying "rank 1 has device cuda where rank 0 has device cpu" "${mpirun[@]}" -np 2 ./rank_1 --device cuda -- "${resnet[@]}"
has_gpu || fails_saying "error: device cuda is not available: " "${mpirun[@]}" -np 2 "${resnet[@]}" --device cuda
fails_saying "--model" "${mpirun[@]}" -np 2 ./rank_1 --model resnet32 -- "${resnet[@]}"
fails_saying "rank 1 has --lr 0.050000001" "${mpirun[@]}" -np 2 ./rank_1 --lr 0.050000001 -- "${resnet[@]}"
fails_saying "rank 1: not expected: --nosuch" "${mpirun[@]}" -np 2 ./rank_1 --nosuch -- "${resnet[@]}"
succeeds "${mpirun[@]}" -np 2 ./rank_1 --lr 0.05 --threads 2 -- "${resnet[@]}" --epochs 1
fails_saying "the loss is" "${mpirun[@]}" -np 2 "${resnet[@]}" --lr 1e30
fails_saying "the loss is" "${mpirun[@]}" -np 2 "${resnet[@]}" --lr 1e30 --sync average
fails_saying "/nonexistent" "${mpirun[@]}" -np 2 "${resnet[@]}" --data /nonexistent
fails_saying "rank 1 has --trace t.json where rank 0 has --trace (none)" "${mpirun[@]}" -np 2 ./rank_1 --trace t.json -- "${resnet[@]}"
fails_saying "rank 1 has --all-reduce mpi where rank 0 has --all-reduce ring" "${mpirun[@]}" -np 2 ./rank_1 --all-reduce mpi -- "${resnet[@]}" --all-reduce ring
# Two runs in one folder: the second is refused, and the first continues undisturbed.
"${mpirun[@]}" -np 2 "${resnet[@]}" --limit 384 --batch 48 --epochs 9999 --checkpoint-dir same --checkpoint-every 1 >first.log 2>&1 &
pid=$!
for _ in $(seq 600); do [ -e same/checkpoint.safetensors ] && break || sleep 0.02; done
fails_saying "another run is writing to same" "${mpirun[@]}" -np 2 "${resnet[@]}" --seed 2 --checkpoint-dir same
grep -q "same/run.lock: process [0-9]* (cifar_resnet) on $(hostname) holds it" "$log" || fail "nobody says who holds the lock"
stop_ranks 2 $pid
wait $pid
grep -q "stopped by a signal" first.log || fail "the first of two runs in one folder: $(tail first.log)"
epochs=$(wc -l <same/metrics.jsonl)
[ ! -e same/previous-1 ] && [ "$(grep -oE '"epoch": ?[0-9]+' same/metrics.jsonl | grep -oE '[0-9]+$' | xargs)" = "$(seq $epochs | xargs)" ] ||
  fail "two runs are mixed"
# A run that cannot begin does not change existing files.
before=$(cd same && find . -type f | sort | xargs sha256sum)
fails_saying "rank 1 has --seed 3" "${mpirun[@]}" -np 2 ./rank_1 --seed 3 -- "${resnet[@]}" --checkpoint-dir same
fails_saying "unknown comm hook" "${mpirun[@]}" -np 2 "${resnet[@]}" --compress zip --checkpoint-dir same
[ "$before" = "$(cd same && find . -type f | sort | xargs sha256sum)" ] || fail "a run that could not begin touched the folder"
