# The properties of the benchmarks that scripts rely on: they run, and their JSON has its fields.
succeeds "$bin/train_step" --model mlp --batch 8 --seconds 0.01 --json step.json
for name in img_per_s ms_per_step; do [ -n "$(field $name step.json)" ] || fail "train_step: no $name"; done
succeeds "$bin/train_step" --model resnet20 --batch 4 --dtype bf16 --infer --seconds 0.01
succeeds "$bin/train_step" --model mlp --hidden 64 --batch 4 --dtype i8 --infer --seconds 0.01
succeeds "$bin/train_step" --model resnet20 --batch 4 --dtype i8 --infer --seconds 0.01
succeeds "$bin/train_step" --model mlp --batch 8 --kernels
grep -q "^matmul: .* MB, 0.0064.* GFLOP" "$log" || fail "train_step --kernels: $(cat "$log")"  # 2 x 8 x 784 x 512
fails_saying "--dtype i8 needs --infer" "$bin/train_step" --model mlp --dtype i8
fails_saying '\x1b[31m' "$bin/train_step" --json "no/$(printf '\033[31m')"
# In turns, as bench/compare.sh starts it: it answers each line at once, and ends at the end of its input.
coproc turns { "$bin/train_step" --model mlp --batch 8 --seconds 0.01 --turns --json -; }
answers=${turns[0]} lines=${turns[1]} pid=$turns_PID
for turn in 1 2; do
  echo >&"$lines"
  read -r -t 60 answer <&"$answers" || fail "train_step --turns: no answer in turn $turn"
  grep -q img_per_s <<<"$answer" || fail "train_step --turns: $answer"
done
exec {lines}>&-
wait "$pid" || fail "train_step --turns fails at the end of its input"
fails_saying "--turns needs --json -" "$bin/train_step" --model mlp --turns </dev/null
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$scripts/../bench/peers timeout 120 python3 - "$bin/train_step" >"$log" 2>&1 <<'END' || fail "bench/peers/measure.py"
import sys
from measure import Failed, Program

step = [sys.argv[1], "--model", "mlp", "--batch", 8, "--seconds", 0.01, "--json", "-"]
with Program([*step, "--turns"]) as program:
    assert all(program.turn()["img_per_s"] > 0 for _ in range(2))
    assert program.end()[1].ru_maxrss > 0
for wrong, said in ((["--nonsense"], "--nonsense"), (["--dtype", "i8"], "i8 needs --infer")):
    try:
        with Program([*step, *wrong]) as program:
            program.turn()
        sys.exit(f"no error with {wrong}")
    except Failed as failure:
        assert failure.side == "rondo" and said in str(failure), failure
END
# compare.sh checks its arguments before it measures anything.
for wrong in "--rounds 0" "--rounds -1" "--seconds 0" "--seconds nan" "--batch 0" "--threads x" "--json /nonexistent/x.json" "--rows=" "--rows nosuch" "--models="; do
  # shellcheck disable=SC2086
  PYTHONDONTWRITEBYTECODE=1 fails_saying "${wrong%%[ =]*}" timeout 60 python3 "$scripts/../bench/peers/compare.py" $wrong
done
# Each op is measured alone and in the list, and both sides have the same ops.
succeeds "$bin/ops" --seconds 1e-9
grep -q "^gelu: " "$log" || fail "ops: no gelu"
succeeds "$bin/ops" --op layer_norm --backward --seconds 0.01 --json op.json
[ -n "$(field ms op.json)" ] || fail "ops: no ms"
fails_saying "--op nosuch: there are abs, add, " "$bin/ops" --op nosuch
"$bin/ops" --op nosuch 2>&1 | sed 's/.*there are //' | tr -d ' \n' | tr ',' '\n' | sort >ours.txt
sed -n 's/^    "\([a-z0-9_]*\)": (.*/\1/p' "$scripts/../bench/peers/ops.py" | sort >theirs.txt
(cd "$scripts/../bench/peers" && PYTHONDONTWRITEBYTECODE=1 python3 -c 'import rows; print(*sorted(rows.OPS), sep="\n")') >rows.txt
echo >>ours.txt
for list in theirs.txt rows.txt; do
  diff <(grep . ours.txt) $list >"$log" || fail "the ops of bench/ops are not those of bench/peers: $list"
done
for program in train_step roofline matmul profiler_cost data_loading; do
  fails_saying "cannot" "$bin/$program" --json /nonexistent/result.json
done
for program in train_step roofline matmul ops; do
  fails_saying '"100000" is not a whole number from 0 to 4096' "$bin/$program" --threads 100000
done
for wrong in nan 0 -1 x; do fails_saying "\"$wrong\" is not above 0" "$bin/train_step" --seconds $wrong; done
fails_saying '"0" is not a whole number from 1 to' "$bin/roofline" --batch 0
"$bin/ops" --op sum --seconds 0.01 >/dev/full 2>"$log" && fail "ops: nothing said of a full disk"
grep -q "standard output cannot be written" "$log" || fail "ops: nothing said of a full disk"
# Without AVX-512, too, oneDNN must have a fast kernel for every convolution, not its plain loops.
ONEDNN_MAX_CPU_ISA=AVX2 DNNL_VERBOSE=1 "$bin/train_step" --model resnet20 --batch 4 --seconds 0.01 >verbose.txt || fail "train_step fails with AVX2"
grep -q convolution, verbose.txt || fail "oneDNN says nothing of its convolutions"
! grep -q convolution,ref verbose.txt || fail "a convolution of resnet20 runs in plain loops with AVX2"
succeeds "$bin/train_step" --model resnet20 --batch 4 --amp bf16 --steps 2 --json step.json
[ "$(field steps step.json)" = 2 ] || fail "train_step --steps 2 takes other steps"
# Two ranks send as many bytes as the gradients have (2.68 MB), whatever autocast does. With bf16 they send half,
# plus a small header.
for flags in "--amp bf16" "--compress bf16"; do
  # shellcheck disable=SC2086  # several words
  succeeds "${mpirun[@]}" -np 2 "$bin/ddp_step" --model mlp --batch 8 --threads 1 --seconds 0.01 --all-reduce pairwise $flags --json "${flags// /}.json"
done
[ "$(field amp ./--ampbf16.json)" = bf16 ] || fail "ddp_step: no amp"
sent=$(field sent_bytes ./--ampbf16.json) least=$(field hook_bytes ./--compressbf16.json) half=$(field sent_bytes ./--compressbf16.json)
[ $((sent / 1000)) = 2678 ] || fail "ddp_step --amp bf16 sends $sent bytes of f32 gradients"
[ "$half" -ge "$least" ] && [ "$half" -le $((least + 1000)) ] || fail "$half bytes were sent where $least are needed"
fails_saying "--amp" "${mpirun[@]}" -np 2 "$bin/ddp_step" --amp i8
succeeds "${mpirun[@]}" -np 2 "$bin/ddp_step" --model resnet20 --batch 2 --threads 1 --seconds 0.01 --messages --trace step.json \
  --profile profile.json
grep -q 'all_reduce of bucket 13 of 13' step.json || fail "ddp_step --trace: not the 13 buckets of one step"
grep -q 'DDP: fc.bias in bucket 1 of 13' profile.json && grep -q '"live bytes"' profile.json || fail "ddp_step --profile: no buckets or memory"
fails_saying "no/such/folder/step.json" "${mpirun[@]}" -np 2 "$bin/ddp_step" --trace no/such/folder/step.json
succeeds "$bin/matmul" --batch 16 --width 32 --repeat 1 --json products.json
[ "$(grep -c packed_gflop_per_s products.json)" = 3 ] || fail "matmul: not three products"
fails_saying "20 is not a multiple of 16" "$bin/matmul" --width 20
succeeds "${mpirun[@]}" -np 2 "$bin/all_reduce" --max-bytes 1048576 --repeat 3 --algorithms auto_own,ring --json sums.json
[ "$(grep -o '"algorithm": "[a-z_]*"' sums.json | sort -u | tr -d '\n')" = '"algorithm": "auto_own""algorithm": "ring"' ] ||
  fail "all_reduce --algorithms runs others"
fails_saying "--algorithms rings: unknown algorithm" "${mpirun[@]}" -np 2 "$bin/all_reduce" --algorithms rings
for dtype in f32 bf16; do
  succeeds "$bin/roofline" --batch 4 --steps 1 --dtype $dtype --json roofline.json
  grep -q '"conv2d_backward_weight"' roofline.json || fail "roofline: no convolutions"
  for name in floor_ms matmul_gflops copy_gb_per_s ms_outside_kernels; do
    [ -n "$(field $name roofline.json)" ] || fail "roofline: no $name"
  done
done
succeeds "$bin/roofline" --batch 2 --steps 1 --infer --each
grep -q '(16, 16, 3, 3) f32' "$log" || grep -q '\[16, 16, 3, 3\] f32' "$log" || fail "roofline --each: no shapes"
succeeds "$bin/profiler_cost" --model mlp --batch 8 --rounds 2 --json cost.json
for name in range_off_ns range_on_ns plain_ms_per_step profiled_ms_per_step; do
  [ -n "$(field $name cost.json)" ] || fail "profiler_cost: no $name"
done
succeeds "${mpirun[@]}" -np 2 "$bin/all_reduce" --min-bytes 1024 --max-bytes 4096 --repeat 2 --json rows.json
for name in algorithm bytes sent seconds bus_gb_s; do
  [ -n "$(field $name rows.json)" ] || fail "all_reduce: no $name"
done
fails_saying "--max-bytes 10 is below --min-bytes 100" "$bin/all_reduce" --min-bytes 100 --max-bytes 10
succeeds "$bin/data_loading" --images 512 --seconds 0.01 --workers 1
if "$bin/image_folder" --root pictures --images 8 --batch 4 --seconds 0.01 --workers 1 --json rows.json >"$log" 2>&1; then
  for name in img_per_s first_batch_ms; do [ -n "$(field $name rows.json)" ] || fail "image_folder: no $name"; done
else
  grep -q 'without libjpeg' "$log" || fail "image_folder fails"
fi
