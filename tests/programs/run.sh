#!/usr/bin/env bash
# Runs the programs as a user would, on Fashion-MNIST's first images, and checks their output files.
#
# run.sh BIN_DIR CASE MPIRUN…      one of the cases below; MPIRUN is the command before -np
set -uo pipefail
bin=$(cd "$1" && pwd) case=$2
shift 2
mpirun=("$@")
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts" && pwd)
goldens=$(cd "$(dirname "${BASH_SOURCE[0]}")/../golden" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
log=$work/log

fail() {
  echo "FAILED: $*"
  echo "---- output:"
  tail -n 40 "$log"
  exit 1
}
# field NAME FILE: a number or string from the JSON that --json wrote.
field() { sed -n 's/^ *"'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\1/p' "$2"; }
# succeeds COMMAND…
succeeds() { timeout 280 "$@" >"$log" 2>&1 || fail "status $? from: $*"; }
# fails_saying TEXT COMMAND…: COMMAND must end by itself, with a status other than 0, and print TEXT.
fails_saying() {
  local text=$1 status=0
  shift
  timeout 120 "$@" >"$log" 2>&1 || status=$?
  [ $status -ne 0 ] || fail "no error from: $*"
  [ $status -ne 124 ] || fail "still running after two minutes: $*"
  grep -qF -- "$text" "$log" || fail "the error does not say \"$text\""
}

# process_of RANK MPIRUN_PID: the process of a rank: a child of mpirun, or of MPICH's proxy, which is a child of
# mpirun.
process_of() {
  local process
  for process in $(pgrep -P "$2") $(pgrep -P "$(pgrep -d, -P "$2")"); do
    tr '\0' '\n' <"/proc/$process/environ" | grep -qxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1" && echo "$process"
  done
}

# stop_ranks COUNT MPIRUN_PID: sends SIGTERM to all ranks. The first to receive it may end the others.
stop_ranks() {
  local rank processes=()
  for ((rank = 0; rank < $1; ++rank)); do processes+=("$(process_of $rank "$2")"); done
  kill -TERM "${processes[@]}"
}

has_gpu() { [ -e /dev/nvidia0 ]; }
# on_gpu NAME: the program, or without a GPU the program that simulates some.
on_gpu() { if has_gpu; then echo "$bin/$1"; else echo "$bin/simulated_$1"; fi; }

# ./rank_1 WORDS… -- COMMAND…, on two ranks: adds WORDS to rank 1's COMMAND. (mpirun's `-np 1 A : -np 1 B` does the
# same, but mpirun of Open MPI 5.0.7 crashes with it.)
cat >rank_1 <<'END' && chmod +x rank_1
#!/usr/bin/env bash
words=()
while [ "$1" != -- ]; do words+=("$1") && shift; done
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] || words=()
exec "${@:2}" "${words[@]}"
END

# use_few_images: Fashion-MNIST becomes its first 3,000 training and test images, not compressed. Reading all of them
# takes as long as a short run.
use_few_images() {
  local from=/usr/share/datasets/fashion-mnist to=$work/data/FashionMNIST/raw part
  [ -e "$from" ] || return
  mkdir -p "$to"
  [ -z "${RONDO_DATA:-}" ] || ln -s "$RONDO_DATA"/* "$work/data/" 2>/dev/null # the other data sets
  for part in train t10k; do # 0 0 8 3: bytes in three dimensions; 3,000 = 11 * 256 + 184 of 28 x 28 pixels
    { printf '\0\0\10\3\0\0\13\270\0\0\0\34\0\0\0\34' && gzip -dc "$from/$part-images-idx3-ubyte.gz" |
      tail -c +17 | head -c $((3000 * 784)); } >"$to/$part-images-idx3-ubyte"
    { printf '\0\0\10\1\0\0\13\270' && gzip -dc "$from/$part-labels-idx1-ubyte.gz" |
      tail -c +9 | head -c 3000; } >"$to/$part-labels-idx1-ubyte"
  done
  export RONDO_DATA=$work/data
}
case $case in
train | ranks | resume* | killed* | hung_rank | reproducible | rank_errors | report | ports) use_few_images ;;
errors | lessons | gpu) [ -z "${RONDO_DATA:-}" ] || use_few_images ;; # parts of them need RONDO_DATA
esac

resnet=("$bin/cifar_resnet" --dataset fashion_mnist --limit 192 --batch 24 --lr 0.05 --threads 1)

case $case in
train) # one process: JSON, checkpoint, metrics, evaluation and prediction from the checkpoint
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
  ;;
ranks) # the same world on 2 ranks, by rondo's ring and by MPI; averaging
  TERM=xterm succeeds "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 1 --json ring.json
  tr '\r' '\n' <"$log" | grep -q '^epoch 1/1: loss' || fail "the line of the epoch does not stand alone"
  [ "$(field world_size ring.json)" = 2 ] || fail "world_size"
  succeeds "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 1 --all-reduce mpi --json mpi.json
  TERM=dumb succeeds "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 1
  [ "$(grep -c 'left  loss' "$log")" -le 10 ] || fail "a log gets more than a line for each tenth of an epoch"
  # Under a launcher the ranks may see a terminal where there is a file.
  for progress in auto bar none; do
    if command -v script >/dev/null; then
      succeeds script -qec "TERM=xterm ${mpirun[*]} -np 2 ${resnet[*]} --epochs 1 --progress $progress" seen.txt
    else
      TERM=xterm succeeds "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 1 --progress $progress
      cp "$log" seen.txt
    fi
    rewritten=$(grep -c $'\r.*left  loss.*\r' seen.txt) lines=$(grep -c 'left  loss' seen.txt)
    case $progress in
    auto) [ "$rewritten" = 0 ] && [ "$lines" -ge 1 ] && [ "$lines" -le 10 ] ;;
    bar) [ "$rewritten" -ge 1 ] ;;
    none) [ "$lines" = 0 ] ;;
    esac || fail "--progress $progress shows $lines lines, of which $rewritten are rewritten"
  done
  [ "$(field param_hash ring.json)" = "$(field param_hash mpi.json)" ] || fail "two ranks add in one order only"
  succeeds "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 1 --sync average --average-every 3 --json average.json
  succeeds "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 1 --trace trace.json
  python3 - trace.json <<'END' || fail "the trace does not have both ranks' steps and collectives"
import json, sys
events = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
for rank in 0, 1:
    names = [e["name"].split(" (")[0] for e in events if e["pid"] == rank]
    assert names.count("forward") == names.count("optimizer") == names.count("wait for gradients") == 8, names
    assert any(name.startswith("all_reduce of bucket 1 of") for name in names), names
END
  succeeds "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 1 --profile profile.json --profile-steps 4
  grep -q '^profile (profile.json): 4 steps of ' "$log" || fail "no table of the profile"
  grep -Eq '^conv2d backward +backward +19 ' "$log" || fail "the table does not have the 19 convolutions of a backward"
  python3 - profile.json <<'END' || fail "the profile is not that of rank 0's 4 steps"
import json, sys
events = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
assert {e["pid"] for e in events} == {0}
names = [e["name"] for e in events]
assert names.count("SGD step") == names.count("step 1") * 4 == 4, names
assert names.count("conv2d") == 4 * 19, names
END
  fails_saying "no/such/folder/profile.json" "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 1 --profile no/such/folder/profile.json
  ;;
resume | resume_average | resume_outer | resume_async | resume_topk | resume_powersgd | resume_zero) # stopped by SIGTERM in mid-epoch, then resumed: bit-identical to a run that was not stopped
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
  run=("${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 5 "${sync[@]}")
  succeeds "${run[@]}" --checkpoint-dir straight --json straight.json
  timeout 200 "${run[@]}" --checkpoint-every 2 --checkpoint-dir "$work/stopped" >"$log" 2>&1 &
  pid=$!
  for _ in $(seq 3000); do
    [ -e stopped/checkpoint.safetensors ] && break
    sleep 0.02
  done
  stop_ranks 2 "$(pgrep -P $pid)" # mpirun is timeout's child
  wait $pid
  status=$?
  [ $status -ne 0 ] || fail "a stopped run must not report success"
  grep -q "stopped by a signal" "$log" || fail "the signal did not stop the run"
  succeeds "${run[@]}" --checkpoint-dir "$work/stopped" --resume --json resumed.json
  [ "$(field param_hash straight.json)" = "$(field param_hash resumed.json)" ] || fail "the resumed run has other weights"
  [ "$(wc -l <stopped/metrics.jsonl)" = 5 ] || fail "metrics.jsonl does not have a line an epoch"
  # Averaging ranks meet only at times, but always at the end of an epoch.
  if [ "$case" = resume_average ]; then
    fails_saying "written by 2 ranks that had state of their own" "${mpirun[@]}" -np 1 "${resnet[@]}" --epochs 5 "${sync[@]}" --checkpoint-dir stopped --resume
  fi
  ;;
reproducible) # 1, 2 and 4 ranks, with 1 or 2 threads: bit-identical; also when stopped on 4 and resumed on 2
  run=("${resnet[@]}" --epochs 2 --reproducible 8)
  succeeds "${run[@]}" --checkpoint-dir straight --json straight.json
  succeeds "${run[@]}" --threads 2 --checkpoint-dir two --json threads.json
  [ "$(field param_hash straight.json)" = "$(field param_hash threads.json)" ] || fail "two threads have other weights"
  for ranks in 2 4; do
    succeeds "${mpirun[@]}" -np $ranks "${run[@]}" --checkpoint-dir "ranks$ranks" --json ranks.json
    [ "$(field param_hash straight.json)" = "$(field param_hash ranks.json)" ] || fail "$ranks ranks have other weights"
    [ "$(field test_correct straight.json)" = "$(field test_correct ranks.json)" ] || fail "$ranks ranks count otherwise"
  done
  timeout 200 "${mpirun[@]}" -np 4 "${run[@]}" --checkpoint-every 2 --checkpoint-dir "$work/stopped" >"$log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    [ -e stopped/checkpoint.safetensors ] && break
    sleep 0.1
  done
  stop_ranks 4 "$(pgrep -P $pid)"
  wait $pid
  grep -q "stopped by a signal" "$log" || fail "the signal did not stop the run"
  succeeds "${mpirun[@]}" -np 2 "${run[@]}" --checkpoint-dir "$work/stopped" --resume --json resumed.json
  ! grep -q "last digits" "$log" || fail "a reproducible run announces that digits will differ"
  [ "$(field param_hash straight.json)" = "$(field param_hash resumed.json)" ] || fail "the resumed run has other weights"
  fails_saying "--reproducible 8, this one has --reproducible unset" "${resnet[@]}" --epochs 2 --checkpoint-dir stopped --resume
  fails_saying "--reproducible 6: shards must be a power of two" "${resnet[@]}" --reproducible 6
  fails_saying "8 shards do not divide by 3 ranks" "${mpirun[@]}" -np 3 "${resnet[@]}" --reproducible 8
  fails_saying "a batch of 24 does not divide by 32 shards" "${resnet[@]}" --reproducible 32
  fails_saying "--reproducible cannot be combined with --sync average, --compress" "${resnet[@]}" --reproducible 8 --compress bf16
  ;;
killed_rank | killed_rank_slow) # kill -9 of a rank at a random moment: the dead rank is named, all end, and the run resumes bit-identically
  # mpirun forwards no output for a second after a death, so the ranks write to their own files.
  printf '#!/bin/sh\nexec "$@" 2>>"said.$OMPI_COMM_WORLD_RANK$PMI_RANK"\n' >to_file && chmod +x to_file
  run=("${mpirun[@]}" -np 2 ./to_file "${resnet[@]}" --limit 384 --batch 48 --epochs 6) # still running when a rank is killed
  succeeds "${run[@]}" --checkpoint-dir straight --json straight.json
  rounds=2
  [ "$case" = killed_rank ] || rounds=20
  slowest_report=0 slowest_end=0
  shared_memory=$(ls /dev/shm)
  now() { date +%s%N; }
  for round in $(seq "$rounds"); do
    rm -rf stopped said.*
    "${run[@]}" --checkpoint-dir "$work/stopped" --checkpoint-every 1 >"$log" 2>&1 &
    pid=$!
    for _ in $(seq 3000); do
      [ -e stopped/checkpoint.safetensors ] && break
      sleep 0.02
    done
    [ -e stopped/checkpoint.safetensors ] || fail "round $round: no checkpoint after 60 s"
    sleep "0.$((RANDOM % 900 + 100))"
    victim=$((RANDOM % 2))
    rank=$(process_of $victim $pid)
    kill -KILL "$rank" || fail "round $round: rank $victim had ended before it was killed"
    killed=$(now)
    reported=
    for _ in $(seq 1000); do
      if [ -z "$reported" ] && grep -q "rank $victim (process $rank) has ended" said.*; then reported=$(now); fi
      kill -0 $pid 2>/dev/null || break
      sleep 0.01
    done
    ended=$(now)
    wait $pid
    status=$?
    [ $status -ne 0 ] || fail "round $round: a killed run must not report success"
    # MPICH's mpirun reports it itself and ends the other ranks at once, before they can.
    grep -q "rank $victim (process $rank) has ended" said.* || grep -q "PID $rank RUNNING AT" "$log" ||
      fail "round $round: nobody says that rank $victim has ended"
    ! pgrep -f "checkpoint-dir $work/stopped" >/dev/null || fail "round $round: a rank lives on"
    report=$(((${reported:-$ended} - killed) / 1000000)) end=$(((ended - killed) / 1000000))
    [ $report -le $slowest_report ] || slowest_report=$report
    [ $end -le $slowest_end ] || slowest_end=$end
    # An idle machine needs half a second and three seconds (docs/results.md). The limits allow for a very busy
    # machine; waiting for a deadline would take even longer.
    [ $report -le 20000 ] || fail "round $round: after $report ms only it was said that rank $victim has ended"
    [ $end -le 25000 ] || fail "round $round: after $end ms only the run was over"
    if [ "$case" = killed_rank ] && [ "$round" -lt "$rounds" ]; then continue; fi
    succeeds "${run[@]}" --checkpoint-dir stopped --resume --json resumed.json
    [ "$(field param_hash straight.json)" = "$(field param_hash resumed.json)" ] ||
      fail "round $round: the resumed run has other weights"
    # The long test has the machine for itself, so any new shared memory is its own.
    if [ "$case" = killed_rank_slow ] && [ "$(ls /dev/shm)" != "$shared_memory" ]; then
      fail "round $round: shared memory is left behind: $(ls /dev/shm)"
    fi
  done
  echo "after at most $slowest_report ms it was said, after $slowest_end ms over"
  ;;
killed_early) # the same while the ranks start: before MPI_Init, in it (where only mpirun notices), while they connect
  [[ $("${mpirun[0]}" --version 2>&1) == *Open*RTE* || $("${mpirun[0]}" --version 2>&1) == *"Open MPI"* ]] ||
    exit 77 # Hydra ends all of them at once
  printf '#!/bin/sh\necho $$ >"process.$OMPI_COMM_WORLD_RANK"\nexec "$@" 2>>"said.$OMPI_COMM_WORLD_RANK"\n' >to_file && chmod +x to_file
  slowest_end=0
  for round in $(seq "${ROUNDS:-4}"); do
    rm -f said.* process.*
    timeout -k 20 60 "$scripts/run_ranks.sh" "${mpirun[@]}" -np 4 ./to_file "${resnet[@]}" --epochs 1000 >"$log" 2>&1 &
    pid=$!
    victim=$((RANDOM % 4))
    until [ -s process.$victim ] || ! kill -0 $pid 2>/dev/null; do sleep 0.005; done
    after=0.$(printf '%03d' $((RANDOM % 600)))
    sleep "$after"
    process=$(cat process.$victim)
    sockets=$(find "/proc/$process/fd" -lname 'socket:*' | wc -l) # the first is opened in MPI_Init
    kill -KILL "$process"
    killed=$(date +%s%N)
    wait $pid
    status=$?
    end=$((($(date +%s%N) - killed) / 1000000))
    [ $end -le $slowest_end ] || slowest_end=$end
    [ $status -ne 0 ] && [ $status -ne 124 ] || fail "round $round: status $status"
    # While Open MPI's mpirun is still starting processes, it counts a process that ends without naming it; if the
    # process ends before mpirun has answered its connection, mpirun hangs and run_ranks.sh kills it before it names.
    grep -q "rank $victim (process\|process rank $victim with PID" said.* "$log" ||
      { [ "$sockets" -eq 0 ] && grep -q "1 process returned" "$log"; } ||
      { grep -q "PMIX ERROR: UNREACHABLE" "$log" && grep -q "1 process returned" "$log"; } ||
      fail "round $round: nobody says that rank $victim ended $after s after its start, but $(cat said.* "$log")"
  done
  echo "after at most $slowest_end ms over"
  ;;

killed_mpirun) # kill -9 of mpirun: its ranks end too
  printf '#!/bin/sh\necho $$ >"process.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"\nexec "$@"\n' >note && chmod +x note
  "${mpirun[@]}" -np 2 ./note "${resnet[@]}" --epochs 1000 --checkpoint-dir stopped --checkpoint-every 1 >"$log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    [ -e stopped/checkpoint.safetensors ] && break
    sleep 0.05
  done
  [ -e stopped/checkpoint.safetensors ] || fail "no checkpoint after 30 s"
  kill -KILL $pid || fail "mpirun had ended before it was killed"
  wait $pid 2>/dev/null
  living() { ps -o stat= -p "$(cat process.0)" -p "$(cat process.1)" | grep -v '^Z'; }
  for _ in $(seq 200); do living >/dev/null && sleep 0.1 || break; done
  ! living >/dev/null || { kill -KILL $(cat process.0 process.1) 2>/dev/null; fail "a rank lives on 20 s after mpirun"; }
  ;;
hung_rank) # kill -STOP of a rank: the others name it at the deadline
  RONDO_FLIGHT_RECORD=$work/record "${mpirun[@]}" -np 2 "${resnet[@]}" --epochs 50 --timeout 5 --checkpoint-dir "$work/stopped" --checkpoint-every 1 >"$log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    [ -e stopped/checkpoint.safetensors ] && break
    sleep 0.05
  done
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
  ;;
killed) # kill -9 during a run leaves a checkpoint from which it can resume
  "${resnet[@]}" --epochs 6 --checkpoint-dir straight --json straight.json >"$log" 2>&1 || fail "straight run"
  "${resnet[@]}" --epochs 6 --checkpoint-dir stopped --checkpoint-every 1 >"$log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    [ -e stopped/checkpoint.safetensors ] && break
    sleep 0.05
  done
  kill -KILL $pid
  wait $pid 2>/dev/null
  succeeds "${resnet[@]}" --epochs 6 --checkpoint-dir stopped --resume --json resumed.json
  [ "$(field param_hash straight.json)" = "$(field param_hash resumed.json)" ] || fail "the resumed run has other weights"
  ;;
report) # --report: the page of a real run, as a browser renders it
  succeeds "${mpirun[@]}" -np 2 "$bin/fashion_mlp" --limit 640 --batch 64 --epochs 2 --threads 1 --report "$work/<b>report.html"
  grep -qF "report $work/<b>report.html" "$log" || fail "the report is not named"
  cp '<b>report.html' report.html
  ! grep -qE '<script|https?://|<link rel="stylesheet' report.html || fail "the page is not alone"
  grep -q 'Means over 20 steps of rank 0, of 2 ranks' report.html || fail "the ranks' communication is not told"
  grep -qF '&lt;b&gt;report.html' report.html || fail "the file's name is not escaped"
  [ "$(grep -o 'data:image/png;base64,iVBORw0KGgo' report.html | wc -l)" = 24 ] || fail "not 24 pictures"
  # A complete run has no new steps to report, but it has its epochs.
  succeeds "$bin/fashion_mlp" --limit 640 --batch 64 --epochs 2 --threads 1 --resume --report again.html
  [ "$(grep -c 'test accuracy: ' again.html)" = 2 ] || fail "a resumed run's curve does not have its two epochs"
  grep -q 'No step was profiled' again.html || fail "a run without steps has a profile"
  fails_saying "no/such/report.html" "$bin/fashion_mlp" --limit 640 --report no/such/report.html --checkpoint-dir never
  [ ! -e never ] || fail "the run began though its report cannot be written"
  command -v chromium >/dev/null || {
    echo "chromium is not installed (scripts/setup.sh extra): the page was not opened"
    exit 77
  }
  timeout 120 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/browser" --enable-logging=stderr \
    --dump-dom "file://$work/report.html" >dom.html 2>"$log" || fail "chromium"
  for id in results curves confusion worst time overlap run; do
    grep -q "id=\"$id\"" dom.html || fail "the page as the browser sees it has no $id"
  done
  [ "$(grep -o '<svg' dom.html | wc -l)" = 6 ] || fail "not five curves and a step"
  [ "$(grep -o '</svg>' dom.html | wc -l)" = 6 ] || fail "a chart is not closed"
  grep -q 'Sneaker\|sneaker' dom.html || fail "the classes have no names"
  ! grep -q CONSOLE "$log" || fail "the browser complains"
  # With a strict Content-Security-Policy nothing is missing either.
  sed 's|<meta charset="utf-8">|&<meta http-equiv="Content-Security-Policy" content="default-src '"'none'"'; img-src data:; style-src '"'unsafe-inline'"'">|' \
    report.html >strict.html
  timeout 120 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/browser" --enable-logging=stderr \
    --dump-dom "file://$work/strict.html" >dom.html 2>"$log" || fail "chromium"
  ! grep -q CONSOLE "$log" || fail "the page asks for something that is not in it"
  ;;
ports) # the programs of PyTorch's examples: each learns from little data
  # falls NAME FLAGS…: the loss of its last line is below that of the first.
  falls() {
    succeeds "$bin/ports/$1" "${@:2}"
    sed -n 's/^\(epoch\|step\) [0-9/]*: loss [a-z ]*\([0-9.]*\).*/\2/p' "$log" >losses
    [ "$(wc -l <losses)" -ge 2 ] && awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < first) }' losses ||
      fail "$1: the loss does not fall"
  }
  export OMP_NUM_THREADS=1
  images=(--dataset fashion_mnist --limit 256)
  falls mnist "${images[@]}" --epochs 2
  falls vae "${images[@]}" --epochs 2 --samples vae.png
  falls dcgan "${images[@]}" --epochs 2 --width 8 --samples gan.png
  [ -s vae.png ] && [ -s gan.png ] || fail "no images were drawn"
  falls super_resolution "${images[@]}" --limit 128 --batch 32 --epochs 2
  falls siamese_network "${images[@]}" --epochs 2
  for _ in $(seq 60); do echo "the quick brown fox jumps over the lazy dog"; done >fox.txt
  falls word_language_model --data fox.txt --epochs 4 --width 32 --layers 1 --batch 8 --window 16 --words 12 --tied
  falls time_sequence_prediction --steps 2 --waves 4 --length 40 --future 20
  falls gcn --epochs 60
  # PyTorch's tutorials.
  falls quickstart --limit 640 --epochs 2 --lr 0.05 --save quickstart.pth
  grep -q '^predicted: ' "$log" || fail "quickstart predicts nothing"
  falls classifier "${images[@]}" --epochs 2 --batch 8
  [ "$(grep -c '^accuracy of ' "$log")" = 10 ] || fail "classifier does not print ten accuracies"
  mkdir names no_names
  printf 'Rossi\nBianchi\nRomano\nColombo\n' >names/Italian.txt
  printf 'Satoshi\nTanaka\nSuzuki\nWatanabe\n' >names/Japanese.txt
  falls char_rnn --data names --steps 300 --every 100 --hidden 16 --lr 0.1
  grep -q '^Satoshi: (-0.* Japanese' "$log" || fail "char_rnn does not know a name that it has learned"
  fails_saying "--data: name a folder" "$bin/ports/char_rnn"
  fails_saying "contains no names" "$bin/ports/char_rnn" --data no_names
  succeeds "$bin/ports/regression"
  grep -q '^loss 0.000' "$log" || fail "regression does not find the polynomial"
  succeeds "$bin/ports/reinforce" --episodes 60 --every 20
  grep -q '^episode 60: ' "$log" || fail "reinforce prints no episode"
  fails_saying "--known 9 must be less than --nodes 9" "$bin/ports/gcn" --known 9 --nodes 9
  fails_saying "--data: name a text file" "$bin/ports/word_language_model"
  ;;
errors) # bad input: one sentence, a status, no hang, no partial files
  fails_saying "resnet21" "$bin/cifar_resnet" --model resnet21
  fails_saying "--nosuch" "$bin/cifar_resnet" --nosuch 1
  fails_saying "--limit: \"-3\" is not a whole number from 0 to " "$bin/cifar_resnet" --limit -3
  fails_saying "--reproducible: \"-2\" is not a whole number" "$bin/cifar_resnet" --reproducible -2
  fails_saying "--timeout: \"1e10\" is not above 0 and at most 1000000" "$bin/cifar_resnet" --timeout 1e10
  fails_saying "--reproducible 3: shards must be a power of two" "${resnet[@]}" --reproducible 3
  fails_saying "--amp f16 needs a GPU" "${resnet[@]}" --amp f16
  fails_saying "--average-every, " "${resnet[@]}" --average-every 3
  fails_saying "--shortcut applies to the CIFAR ResNets" "$bin/fashion_mlp" --shortcut b --limit 100
  fails_saying "standard output cannot be written" sh -c '"$@" --json - >/dev/full' sh "${resnet[@]}" --epochs 1
  RONDO_HEARTBEAT_TIMEOUT=soon fails_saying "RONDO_HEARTBEAT_TIMEOUT is \"soon\", not a number" "${resnet[@]}"
  fails_saying "--lr: \"\" is not" "$bin/cifar_resnet" --lr ""
  fails_saying "--lr: \"inf\" is not" "$bin/cifar_resnet" --lr inf
  fails_saying "--seed: \"-1\" is not a whole number" "$bin/cifar_resnet" --seed -1
  fails_saying "--seed: \"99999999999999999999\" is not" "$bin/cifar_resnet" --seed 99999999999999999999
  fails_saying "--limit: \"1e30\" is not a whole number from 0 to 1000000000000000" "$bin/cifar_resnet" --limit 1e30
  fails_saying "--predict: it is empty" "$bin/cifar_resnet" --predict ""
  fails_saying "--checkpoint-dir: it is empty" "$bin/cifar_resnet" --checkpoint-dir ""
  fails_saying "--threads: \"100000\" is not a whole number from 0 to 4096" "${resnet[@]}" --threads 100000
  fails_saying "\"tpu\"" "${resnet[@]}" --device tpu
  fails_saying "--graph needs a GPU: --device cuda" "${resnet[@]}" --graph
  fails_saying "--resident needs a GPU: --device cuda" "${resnet[@]}" --resident
  fails_saying "--all-reduce nccl needs GPUs: --device cuda" "${resnet[@]}" --all-reduce nccl
  fails_saying "--compress: unknown comm hook \"zip\"" "${resnet[@]}" --compress zip
  fails_saying "--compress: topk: ratio 2, but it must be above 0 and at most 1" "${resnet[@]}" --compress topk:2
  fails_saying "--compress: powersgd: rank 0" "${resnet[@]}" --compress powersgd:0
  fails_saying "--compress needs --sync ddp" "${resnet[@]}" --compress fp16 --sync average
  fails_saying "--zero cannot be combined with --sync average" "${resnet[@]}" --zero --compress bf16
  fails_saying "--accumulate cannot be combined with --reproducible" "${resnet[@]}" --accumulate 2 --reproducible 4
  fails_saying "--no-overlap needs --sync ddp" "${resnet[@]}" --no-overlap --sync average
  fails_saying "--outer-momentum need --sync average" "${resnet[@]}" --average-async
  fails_saying "--average-async cannot be combined with --outer-lr" "${resnet[@]}" --sync average --average-async --outer-lr 0.7
  has_gpu || fails_saying "device cuda is not available: " "${resnet[@]}" --device cuda
  fails_saying "/nowhere/x.json" "${resnet[@]}" --json /nowhere/x.json --checkpoint-dir unwritable
  mkdir folder && ln -s /nowhere/x.json link.json
  fails_saying "folder: it is a directory" "${resnet[@]}" --json folder --checkpoint-dir unwritable
  fails_saying "/nowhere/x.json" "${resnet[@]}" --json link.json --checkpoint-dir unwritable
  fails_saying "--trace ./x.csv is also --csv, which it would overwrite" "${resnet[@]}" --csv x.csv --trace ./x.csv --checkpoint-dir unwritable
  fails_saying "unwritable/best.safetensors is also the run's best checkpoint" "${resnet[@]}" --json unwritable/best.safetensors --checkpoint-dir unwritable
  fails_saying "--export-onnx w.pth is also --weights" "${resnet[@]}" --weights w.pth --export-onnx w.pth --checkpoint-dir unwritable
  for flag in trace profile report export-onnx; do
    fails_saying "--$flag: cannot write nowhere/x: " "${resnet[@]}" --$flag nowhere/x --checkpoint-dir unwritable
  done
  for flag in checkpoint-dir csv tensorboard; do
    fails_saying "--$flag: " "${resnet[@]}" --checkpoint-dir unwritable --$flag /dev/null/x
  done
  fails_saying "--csv: /dev/full: is not a regular file" "${resnet[@]}" --csv /dev/full --checkpoint-dir unwritable
  mkdir -p planted && echo mine >victim && ln -sf ../victim planted/rank0.txt
  RONDO_FLIGHT_RECORD=planted fails_saying "planted/rank0.txt: cannot be written: it is a symbolic link" "${mpirun[@]}" -np 2 "${resnet[@]}" --lr 1e30
  [ "$(cat victim)" = mine ] || fail "a flight record was written through a link"
  RONDO_FLIGHT_RECORD=/proc/nowhere fails_saying "RONDO_FLIGHT_RECORD=/proc/nowhere: cannot write to this folder: " "${resnet[@]}" --checkpoint-dir unwritable
  [ ! -e unwritable ] || fail "trained before looking at what is to be written"
  OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=2 fails_saying "OMPI_COMM_WORLD_RANK is 5" "${resnet[@]}"
  SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 fails_saying "Slurm (SLURM_STEP_NUM_TASKS) started 4 ranks" "${resnet[@]}"
  fails_saying "/nonexistent" "$bin/cifar_resnet" --data /nonexistent
  fails_saying "--mean 1,2: has 2 numbers" "${resnet[@]}" --mean 1,2
  fails_saying "--std 1,x,2: \"x\" is not a number" "${resnet[@]}" --std 1,x,2
  fails_saying "--mean 1,: \"\" is not a number" "${resnet[@]}" --mean 1,
  fails_saying "--std 0: 0 is not above 0" "${resnet[@]}" --std 0
  fails_saying "nothing/checkpoint.safetensors" "${resnet[@]}" --resume --checkpoint-dir nothing
  [ ! -e nothing/metrics.jsonl ] || fail "a failed --resume wrote metrics"
  succeeds "${resnet[@]}" --epochs 1 --checkpoint-dir out
  fails_saying "resnet20" "${resnet[@]}" --model resnet32 --epochs 1 --resume --checkpoint-dir out
  fails_saying "belongs to a run with --lr 0.05, this one has --lr 0.1" "${resnet[@]}" --lr 0.1 --epochs 1 --resume --checkpoint-dir out
  fails_saying "belongs to a run with --augment 1, this one has --augment 0" "${resnet[@]}" --no-augment --epochs 1 --resume --checkpoint-dir out
  fails_saying "belongs to a run with --accumulate unset, this one has --accumulate 2" "${resnet[@]}" --accumulate 2 --epochs 1 --resume --checkpoint-dir out
  fails_saying "belongs to a run with --sync-bn unset, this one has --sync-bn 1" "${resnet[@]}" --sync-bn --epochs 1 --resume --checkpoint-dir out
  fails_saying "out/checkpoint.safetensors is a checkpoint of the model resnet20, not of mlp" "${resnet[@]}" --model mlp --eval --checkpoint-dir out
  if [ -d "${RONDO_DATA:-$HOME/.cache/rondo}/cifar-10-batches-bin" ]; then # otherwise the missing data are reported first
    fails_saying "out/checkpoint.safetensors (trained on fashion_mnist): " "${resnet[@]}" --dataset cifar10 --eval --checkpoint-dir out
  fi
  fails_saying "--weights: cannot read none" "${resnet[@]}" --eval --weights none
  fails_saying "picture.ppm: cannot be opened" "${resnet[@]}" --predict picture.ppm --checkpoint-dir out
  : >picture.ppm
  fails_saying "picture.ppm: is not a binary PPM" "${resnet[@]}" --predict picture.ppm --checkpoint-dir out
  printf 'P6 32 32 255\nabc' >picture.ppm
  fails_saying "picture.ppm: ends after 3 of 3072 bytes" "${resnet[@]}" --predict picture.ppm --checkpoint-dir out
  printf 'P6 65536 65536 255\nabc' >picture.ppm
  fails_saying "picture.ppm: ends after 3 of 12884901888 bytes" "${resnet[@]}" --predict picture.ppm --checkpoint-dir out
  { printf 'P5 28 28 100\n' && head -c 784 /dev/zero | tr '\0' '\310'; } >picture.ppm
  fails_saying "picture.ppm: has a sample of 200" "${resnet[@]}" --predict picture.ppm --checkpoint-dir out
  truncate -s 5000 out/checkpoint.safetensors
  fails_saying "out/checkpoint.safetensors" "${resnet[@]}" --epochs 1 --resume --checkpoint-dir out
  fails_saying "loss is" "${resnet[@]}" --lr 1e30 --checkpoint-dir nan
  [ ! -e nan/checkpoint.safetensors ] || fail "a checkpoint of NaN was written"
  fails_saying "cannot be created" "${resnet[@]}" --epochs 1 --checkpoint-dir /proc/nowhere
  ;;
rank_errors) # the same on several ranks: every rank ends, and the message names the difference
  fails_saying "--batch 49 is not divisible by the 2 ranks" "${mpirun[@]}" -np 2 "${resnet[@]}" --batch 49
  fails_saying "--lr 0.2" "${mpirun[@]}" -np 2 ./rank_1 --lr 0.2 -- "${resnet[@]}"
  fails_saying "rank 1 has device cuda where rank 0 has device cpu" "${mpirun[@]}" -np 2 ./rank_1 --device cuda -- "${resnet[@]}"
  has_gpu || fails_saying "error: device cuda is not available: " "${mpirun[@]}" -np 2 "${resnet[@]}" --device cuda
  fails_saying "--model" "${mpirun[@]}" -np 2 ./rank_1 --model resnet32 -- "${resnet[@]}"
  fails_saying "rank 1 has --lr 0.050000001" "${mpirun[@]}" -np 2 ./rank_1 --lr 0.050000001 -- "${resnet[@]}"
  fails_saying "rank 1: The following argument was not expected: --nosuch" "${mpirun[@]}" -np 2 ./rank_1 --nosuch -- "${resnet[@]}"
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
  ;;
lessons) # the examples that explain: they succeed and print what they promise
  succeeds "$bin/01_autograd"
  succeeds "${mpirun[@]}" -np 4 "$bin/03_ring"
  grep -q 'rank 3' "$log" || fail "03_ring does not show its last rank"
  for _ in $(seq 60); do echo "the quick brown fox jumps over the lazy dog"; done >fox.txt
  for model in transformer lstm gru; do
    succeeds "$bin/05_text" --text fox.txt --model $model --steps 60 --every 30 --batch 8 --context 16 --width 32 --layers 1 --sample 20
    grep -q '^2376 characters for training, 264 for validation, 28 kinds: 4.807 bits each' "$log" || fail "05_text counts otherwise"
    # Bits per character of a repetitive text: few, even after so little training.
    awk '/^step 60:/ { seen = 1; bad = $11 + 0 > 2.5 } END { exit bad || !seen }' "$log" || fail "05_text --model $model has learned nothing"
    [ "$(sed -n '/^---$/,/^---$/p' "$log" | wc -c)" = 29 ] || fail "05_text --model $model does not write 20 characters"
  done
  fails_saying "nowhere" "$bin/05_text" --text nowhere
  # Two ranks share the windows of a step, so they learn and write what one rank does.
  for ranks in 1 2; do
    succeeds "${mpirun[@]}" -np $ranks "$bin/08_gpt" --data fox.txt --steps 60 --every 20 --batch 8 --context 16 --width 32 --layers 2 --sample 40
    grep -q "^2640 characters of 28 kinds, 26880 parameters, ranks: $ranks" "$log" || fail "08_gpt counts otherwise"
    awk '/^step/ { if (n++ && $4 + 0 >= last) bad = 1; last = $4 + 0 } END { exit bad || n != 3 || last > 2 }' "$log" || fail "08_gpt on $ranks ranks: the loss does not fall"
    [ "$(sed -n '/^---$/,/^---$/p' "$log" | wc -c)" = 49 ] || fail "08_gpt does not write 40 characters"
    sed -n '/^step 20:/p' "$log" | cut -c-19 >gpt.$ranks
  done
  cmp gpt.1 gpt.2 || fail "08_gpt: two ranks learn otherwise than one"
  fails_saying "--batch 9 is not divisible by the 2 ranks" "${mpirun[@]}" -np 2 "$bin/08_gpt" --data fox.txt --batch 9
  fails_saying "--data: name a text file" "$bin/08_gpt"
  # Adapters learn another text, are a few tensors in a file of their own, and disappear in the weights.
  for _ in $(seq 60); do echo "pack my box with five dozen liquor jugs"; done >jugs.txt
  succeeds "$bin/09_lora" --data fox.txt --adapt jugs.txt --steps 60
  grep -q '^LoRA of rank 4 trains [0-9]* of [0-9]* parameters$' "$log" || fail "09_lora does not count"
  grep -q '^16 tensors saved to lora.safetensors$' "$log" || fail "09_lora saves otherwise"
  awk '/^trained on --data/ { before = $7 + 0 } /^trained on --adapt/ { after = $5 + 0 } /^merged/ { merged = $5 + 0 }
       END { exit !(after > 0 && after < before / 2 && merged - after < 0.002 && after - merged < 0.002) }' "$log" || fail "09_lora: the adapters have not learned, or are lost when merged"
  fails_saying "--data and --adapt: name two text files" "$bin/09_lora"
  if [ -n "${RONDO_DATA:-}" ]; then # the loop on two ranks: it learns, and refuses a batch that cannot be shared out
    succeeds "${mpirun[@]}" -np 2 "$bin/02_resnet" --epochs 2 --limit 1000
    awk '/^epoch [12]\/2: loss/ { loss[++n] = $4 + 0 } END { exit !(n == 2 && loss[2] < loss[1] && loss[1] > 0) }' "$log" ||
      fail "02_resnet: two epochs do not lower the loss"
    fails_saying "--batch 33 is not divisible by the 2 ranks" "${mpirun[@]}" -np 2 "$bin/02_resnet" --batch 33
  fi
  if [ -n "${RONDO_DATA:-}" ]; then # an MLP and a ResNet in int8: at most half a point lost, a quarter of the size
    for model in mlp resnet; do
      succeeds "$bin/06_quantize" --model $model --weights "$RONDO_DATA/weights/cifar10_resnet20_zip.pth" --train-steps 300 --test-images 1000 --qat-steps 20 --save $model
      awk '$3 == "%" { right[$1] = $2; size[$1] = $5; n++ }
           END { for (k in right) if (k != "f32" && (right[k] < right["f32"] - 0.5 || size[k] * 3.5 > size["f32"])) bad = 1; exit bad || n < 2 }' "$log" ||
        fail "06_quantize --model $model loses too much, or saves too little"
    done
  fi
  # A network that learns while a simulation runs: identical in two runs, and far better than no prediction.
  export OMPI_MCA_btl_tcp_if_include=lo # or Open MPI 5 warns (choose_addresses in dist/transports/mpi/mpi_transport.cpp)
  succeeds "${mpirun[@]}" -np 2 "$bin/07_simulation"
  awk '/^6 steps ahead/ { seen = 1; bad = $(NF - 2) < 4 } END { exit bad || !seen }' "$log" || fail "07_simulation has learned too little"
  awk '/^pair/ { if (n++ && $NF >= last) bad = 1; last = $NF } END { exit bad || n < 3 }' "$log" || fail "07_simulation: the error does not fall"
  cp "$log" simulation.1
  succeeds "${mpirun[@]}" -np 2 "$bin/07_simulation"
  cmp simulation.1 "$log" || fail "07_simulation differs between two runs"
  fails_saying "07_simulation: 64 rows cannot be divided among 3 ranks; start 1, 2, 4, 8 or 16" "${mpirun[@]}" -np 3 "$bin/07_simulation"
  fails_saying "nothing.pth" "$bin/06_quantize" --model resnet --weights nothing.pth
  echo short >short.txt
  fails_saying "6 characters are too few for windows of 64" "$bin/05_text" --text short.txt
  fails_saying "--data: 6 characters are too few for windows of 65" "$bin/08_gpt" --data short.txt
  fails_saying "short.txt: 6 bytes are too few for windows of 33" "$bin/09_lora" --data short.txt --adapt short.txt
  ;;
gpu) # every program with --device cuda
  succeeds "$(on_gpu 01_autograd)" --device cuda
  grep -q 'first derivative agrees, second agrees' "$log" || fail "01_autograd: derivatives differ on the GPU"
  succeeds "$(on_gpu 03_ring)" --device cuda --all-reduce mpi
  succeeds "${mpirun[@]}" -np 2 "$(on_gpu 03_ring)" --device cuda --all-reduce mpi
  for _ in $(seq 60); do echo "the quick brown fox jumps over the lazy dog"; done >fox.txt
  for model in transformer lstm gru; do
    text=(--text fox.txt --model $model --steps 4 --every 2 --batch 2 --context 8 --width 16 --layers 1 --sample 5)
    for device in cpu cuda; do
      succeeds "$(on_gpu 05_text)" "${text[@]}" --device $device
      sed -n 's/, after.*//; /^step/p' "$log" >text.$device
    done
    diff text.cpu text.cuda >"$log" || fail "05_text --model $model learns otherwise on the GPU"
  done
  for way in "" --graph "--resident --graph" "--amp f16"; do
    # shellcheck disable=SC2086
    succeeds "$(on_gpu fashion_mlp)" --limit 160 --batch 32 --epochs 2 --device cuda $way --checkpoint-dir "gpu$way" --json result.json
    [ "$(field device result.json)" = cuda ] || fail "fashion_mlp $way: another device in its JSON"
  done
  succeeds "${mpirun[@]}" -np 2 "$(on_gpu fashion_mlp)" --limit 160 --batch 32 --epochs 1 --device cuda --all-reduce mpi --checkpoint-dir ranks
  # Few images, because the simulation's convolutions are plain loops.
  succeeds "$(on_gpu cifar_resnet)" --dataset fashion_mnist --limit 12 --batch 4 --lr 0.05 --epochs 1 --device cuda --graph --resident --checkpoint-dir resnet
  succeeds "$(on_gpu train_step)" --model mlp --batch 8 --seconds 0.01 --device cuda --graph
  succeeds "${mpirun[@]}" -np 2 "$(on_gpu ddp_step)" --model mlp --batch 8 --seconds 0.01 --device cuda --all-reduce mpi --compress fp16
  if [ -n "${RONDO_DATA:-}" ]; then
    weights=$RONDO_DATA/weights/cifar10_resnet20_zip.pth
    succeeds "$(on_gpu 04_fine_tune)" --weights "$weights" --images 50 --test-images 4 --epochs 1 --device cuda
    succeeds "$(on_gpu 06_quantize)" --train-steps 5 --test-images 100 --hidden 32 --device cuda
    succeeds "$(on_gpu 06_quantize)" --model resnet --weights "$weights" --calibration 4 --qat-steps 1 --batch 4 --test-images 4 --device cuda
  fi
  # Without a GPU, all programs say so.
  if ! has_gpu; then
    for program in 01_autograd 03_ring fashion_mlp cifar_resnet train_step ddp_step; do
      fails_saying "there is no NVIDIA driver" "$bin/$program" --device cuda
    done
    fails_saying "there is no NVIDIA driver" "$bin/05_text" --text fox.txt --device cuda
  fi
  fails_saying "nonsense" "$bin/05_text" --text fox.txt --device nonsense
  ;;
benches) # the properties of the benchmarks that scripts rely on: they run, and their JSON has its fields
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
  fails_saying "--op nosuch: there are add, " "$bin/ops" --op nosuch
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
  for name in algorithm bytes seconds bus_gb_s; do
    [ -n "$(field $name rows.json)" ] || fail "all_reduce: no $name"
  done
  fails_saying "--max-bytes 10 is below --min-bytes 100" "$bin/all_reduce" --min-bytes 100 --max-bytes 10
  succeeds "$bin/data_loading" --images 512 --seconds 0.01 --workers 1
  if "$bin/image_folder" --root pictures --images 8 --batch 4 --seconds 0.01 --workers 1 --json rows.json >"$log" 2>&1; then
    for name in img_per_s first_batch_ms; do [ -n "$(field $name rows.json)" ] || fail "image_folder: no $name"; done
  else
    grep -q 'without libjpeg' "$log" || fail "image_folder fails"
  fi
  ;;
doctor) # rondo-doctor: the properties that scripts rely on, on 1 and 2 ranks; its status says whether a run would fail
  for ranks in 1 2; do
    succeeds "${mpirun[@]}" -np $ranks "$bin/rondo-doctor" --seconds 0.1 --json report.json
    [ "$(field world_size report.json)" = $ranks ] || fail "world_size of $ranks ranks"
    for name in host kernel isa onednn mpi thread_level share total gflops copy_gb_s; do
      [ "$(field $name report.json | grep -c .)" = $ranks ] || fail "no $name of each of $ranks ranks"
    done
    grep -q '"findings": \[' report.json || fail "no findings"
    [ "$(grep -c '^what is wrong' "$log")" = 1 ] || fail "not one rank alone reports"
  done
  for name in latency_us gb_s us; do [ -n "$(field $name report.json)" ] || fail "no $name"; done
  [ "$(field algorithm report.json | sort -u)" = shared ] || fail "the ranks of one machine share no memory"
  fails_saying "standard output cannot be written" sh -c '"$@" >/dev/full' sh "$bin/rondo-doctor" --seconds 0
  timeout 60 "$bin/rondo-doctor" --seconds 0 --json - >json 2>"$log" || fail "--json -"
  [ "$(head -c 1 json)" = "{" ] || fail "--json - writes more than the object to standard output"
  fails_saying "--nosuch; --help lists the flags" "$bin/rondo-doctor" --nosuch
  fails_saying "--seconds" "${mpirun[@]}" -np 2 "$bin/rondo-doctor" --seconds soon
  fails_saying "rank 1 has --seconds 0.2 where rank 0 has --seconds 0.1" "${mpirun[@]}" -np 2 ./rank_1 --seconds 0.2 -- "$bin/rondo-doctor" --seconds 0.1
  fails_saying "error: rank 1: The following argument was not expected: --nosuch" "${mpirun[@]}" -np 2 ./rank_1 --nosuch -- "$bin/rondo-doctor"
  "$bin/rondo-doctor" --help | grep -q "^Exit status: 0 " || fail "--help does not tell the exit statuses"
  fails_saying "cannot write /nowhere/x.json" "$bin/rondo-doctor" --seconds 0 --json /nowhere/x.json
  for wrong in "RONDO_ISA=sse9 is not one of" 'RONDO_CONV: unknown convolution algorithm "fast"' "RONDO_PACKED_MATMUL=2 is neither 0 nor 1"; do
    name=${wrong%%[=:]*}
    value=$(case $name in RONDO_ISA) echo sse9 ;; RONDO_CONV) echo fast ;; *) echo 2 ;; esac)
    fails_saying "with which no rondo program starts: $wrong" env "$name=$value" "$bin/rondo-doctor" --seconds 0
    grep -q '^what is wrong' "$log" || fail "rondo-doctor ended at $name"
    fails_saying "error: $wrong" env "$name=$value" "$bin/cifar_resnet" --weights none.pth --eval
  done
  OMP_NUM_THREADS=5000 fails_saying "broken: OMP_NUM_THREADS=5000" "$bin/rondo-doctor" --seconds 0
  SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 fails_saying "broken: the ranks do not find each other" "$bin/rondo-doctor"
  OMP_NUM_THREADS=some succeeds "$bin/rondo-doctor" --seconds 0
  grep -q 'slow: .*OMP_NUM_THREADS is "some"' "$log" || fail "an odd OMP_NUM_THREADS is not found"
  grep -qE '^  threads +([0-9]+) a rank .*its share: \1\)' "$log" || fail "an odd OMP_NUM_THREADS is used"
  ;;
weight_kinds) # unusual or hostile weight files: read if possible, escaped on a terminal, identified
  # golden NAME: a file that PyTorch wrote; safetensors HEADER DATA: a file with this header.
  golden() { printf "$(sed -n "/^=== $1\$/{n;s/../\\\\x&/g;p}" "$goldens/torch_files_hex.txt")"; }
  safetensors() {
    local n=${#1}
    printf "$(printf '\\x%02x' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) 0 0 0 0 0)"
    printf '%s%s' "$1" "$2"
  }
  shows_no_escapes() { # GCC 14's libgomp prints them itself
    ! grep -v '^libgomp: ' "$log" | LC_ALL=C grep -q "$(printf '[\001-\010\016-\037\177]')" || fail "what the terminal obeys is shown by $*"
  }
  golden nested >nested.pth
  succeeds "$bin/rondo-weights" convert nested.pth nested.safetensors
  fails_saying "nested.safetensors: is the input file" "$bin/rondo-weights" convert nested.safetensors nested.safetensors
  head -c 300 nested.pth >cut.pth
  fails_saying "cut.pth: is cut short or damaged: it is a zip archive without its directory" "$bin/rondo-weights" ls cut.pth
  succeeds "$bin/rondo-weights" ls nested.safetensors
  grep -q '^encoder.layers.1 .*f32' "$log" && grep -q '^6 tensors, ' "$log" || fail "tensors of inner dicts are lost"
  golden evil >evil.pth
  succeeds "$bin/rondo-weights" ls evil.pth
  grep -q '^1 tensors, ' "$log" && grep -qF 'e: <posix.system>' "$log" || fail "tensors next to a foreign name are lost"
  golden unreadable >unreadable.pth
  succeeds "$bin/rondo-weights" convert unreadable.pth readable.safetensors
  grep -q 'warning: unreadable.pth: sparse is left out: it is made by ' "$log" || fail "what is left out is not said"
  golden checkpoint >checkpoint.pth
  succeeds "$bin/rondo-weights" convert checkpoint.pth texts.safetensors
  grep -qx 'warning: texts.safetensors: optimizer is left out: the file holds only tensors and texts' "$log" || fail "what convert leaves out is not said"
  succeeds "$bin/rondo-weights" ls texts.safetensors
  grep -qx 'arch: resnet20' "$log" && grep -qx 'epoch: 90' "$log" || fail "convert loses the texts of a torch.save file"
  succeeds "$bin/rondo-weights" convert texts.safetensors texts.pth
  grep -qx 'warning: texts.pth: arch, best_prec1, done, epoch are left out: the file holds only tensors' "$log" || fail "texts are lost without a word"
  golden two_deep >two.pth
  fails_saying 'say which one is meant, or "." for all of them (--entry' "$bin/rondo-weights" convert two.pth x.safetensors
  succeeds "$bin/rondo-weights" convert two.pth x.safetensors --entry .
  golden torchscript >script.pth
  fails_saying "script.pth: is a TorchScript archive" "$bin/rondo-weights" ls script.pth
  echo "<!DOCTYPE html><title>404</title>" >page.safetensors
  fails_saying "page.safetensors: is an HTML page" "$bin/rondo-weights" ls page.safetensors
  fails_saying "page.safetensors: is an HTML page" "${resnet[@]}" --weights page.safetensors --eval
  # Several parts with an index.
  succeeds "$bin/rondo-weights" convert nested.pth part1.safetensors --only encoder.
  succeeds "$bin/rondo-weights" convert nested.pth part2.safetensors --ignore '^encoder\.'
  echo '{"weight_map": {"layers.0": "part1.safetensors", "layers.1": "part1.safetensors", "pair.0": "part1.safetensors",
    "w": "part2.safetensors", "head.b": "part2.safetensors", "7.x": "part2.safetensors"}}' >model.safetensors.index.json
  succeeds "$bin/rondo-weights" convert model.safetensors.index.json whole.pth --rename '^(layers|pair)=encoder.$1'
  succeeds "$bin/rondo-weights" diff whole.pth nested.pth
  mv part1.safetensors elsewhere
  fails_saying "the index names part1.safetensors, which does not exist" "$bin/rondo-weights" ls model.safetensors.index.json
  # Names that would change the terminal's colours, or fill it.
  safetensors '{"a\u001b[31m\u009b1m\u202e\nb":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{"k\u0007":"\u001b]0;x"}}' x >odd.safetensors
  succeeds "$bin/rondo-weights" ls odd.safetensors
  grep -qF 'a\x1b[31m\u009b1m\u202e\nb  u8    [1]' "$log" && grep -qF 'k\x07: \x1b]0;x' "$log" || fail "ls escapes otherwise"
  shows_no_escapes ls
  fails_saying 'a\x1b[31m' "$bin/rondo-weights" convert odd.safetensors x.pth --strip module.
  shows_no_escapes "convert's error"
  fails_saying 'a\x1b[31m' "${resnet[@]}" --weights odd.safetensors --eval
  shows_no_escapes "cifar_resnet's error"
  fails_saying '\x1b[31m' "$bin/rondo-weights" ls odd.safetensors "$(printf '\033[31m')"
  shows_no_escapes "the error of a flag"
  fails_saying '\x1b[31m' "$bin/rondo-doctor" "$(printf '\033[31m')"
  shows_no_escapes "rondo-doctor's error of a flag"
  OMP_NUM_THREADS="$(printf '\033[31m')" succeeds "$bin/rondo-doctor" --seconds 0
  shows_no_escapes "rondo-doctor"
  header='"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
  for ((i = 0; i < 500; ++i)); do header+=",\"c$i\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}"; done
  safetensors "{\"$(head -c 1000000 /dev/zero | tr '\0' a)\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},$header}" "" >long.safetensors
  succeeds "$bin/rondo-weights" ls long.safetensors
  [ "$(wc -c <"$log")" -lt 1200000 ] || fail "every line is as long as the longest name"
  ;;
offline) # machines without a network, and the program that gets data for them
  export RONDO_DATA=$work/node RONDO_MIRROR=http://127.0.0.1:1 no_proxy='*'
  fails_saying "on a machine with a network run \`rondo-data get mnist --to $work/node\`, and copy that folder here if the machines do not share it; or set RONDO_DATA" "$bin/fashion_mlp" --dataset mnist
  fails_saying "on a machine with a network run \`rondo-data get cifar10_resnet20 --to $work/node\`" env https_proxy=http://127.0.0.1:1 no_proxy= "$bin/04_fine_tune" --images 50
  fails_saying "unknown data set or weights 'imagenet'; use one of cifar10, cifar100, mnist, fashion_mnist, resnet18, " "$bin/rondo-data" get imagenet --to new
  fails_saying "http://127.0.0.1:1/cifar-10-binary.tar.gz: cannot be downloaded" "$bin/rondo-data" get cifar10 --to new
  fails_saying "--to" "$bin/rondo-data" get cifar10 --to ''
  echo >file
  fails_saying "file: cannot be created" "$bin/rondo-data" get cifar10 --to file
  # The mirror's file is not MNIST: nothing of it is kept.
  mkdir -p mirror/mnist
  echo short | gzip >mirror/mnist/train-images-idx3-ubyte.gz
  RONDO_MIRROR=file://$work/mirror fails_saying "train-images-idx3-ubyte.gz" "$bin/rondo-data" get mnist --to new
  [ -z "$(find new -name '*ubyte*')" ] || fail "half a data set is left"
  succeeds "$bin/rondo-data" ls
  grep -qE "^mnist +data set +11.6 MB +would be in $work/node/datasets/MNIST/raw$" "$log" || fail "ls: where MNIST would be"
  grep -qE "^resnet18 +weights +46.8 MB +would be in $work/node/weights/resnet18-f37072fd$" "$log" || fail "ls: where weights would be"
  mkdir -p node/datasets/MNIST/raw
  echo >node/datasets/MNIST/raw/t10k-images-idx3-ubyte
  succeeds "$bin/rondo-data" ls
  grep -qE "^mnist .* is in $work/node/datasets/MNIST/raw, but train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-labels-idx1-ubyte.gz are missing$" "$log" || fail "ls: a part of MNIST is there"
  fails_saying "train-images-idx3-ubyte.gz: cannot be downloaded" "$bin/rondo-data" get mnist --to node # only a part is there
  for file in train-images-idx3 train-labels-idx1 t10k-labels-idx1; do echo >node/datasets/MNIST/raw/$file-ubyte; done
  succeeds "$bin/rondo-data" get mnist --to node
  grep -qx "node/datasets/MNIST/raw" "$log" || fail "get names another folder"
  mkdir -p node/datasets/cifar-100-binary
  echo >node/datasets/cifar-100-binary/test.bin
  succeeds "$bin/rondo-data" ls
  grep -qE "^mnist .* is in $work/node/datasets/MNIST/raw$" "$log" || fail "ls: MNIST is there"
  grep -qE "^cifar100 .* is in $work/node/datasets/cifar-100-binary, but train.bin is missing$" "$log" || fail "ls: a part of CIFAR-100 is there"
  fails_saying "cifar-100-binary: exists, but train.bin is missing; remove the folder" "$bin/rondo-data" get cifar100 --to node
  fails_saying "standard output cannot be written" bash -c "\"$bin/rondo-data\" ls >/dev/full"
  ;;
weights) # files from other projects: identified, with as many correct test images as in PyTorch, and converted
  weights=${RONDO_DATA:-}/weights
  [ -n "${RONDO_DATA:-}" ] && [ -e "$weights/cifar10_resnet20_legacy.th" ] || exit 77
  # PyTorch's counts; a tie or a rounding may change them by an image or two.
  for line in "cifar10_resnet20_legacy.th 9173 a 0.485,0.456,0.406 0.229,0.224,0.225" "cifar10_resnet20_zip.pth 9262 b 0.4914,0.4822,0.4465 0.2023,0.1994,0.201"; do
    read -r file wanted shortcut mean std <<<"$line"
    succeeds "$bin/cifar_resnet" --weights "$weights/$file" --eval --json eval.json
    grep -qF "$file: resnet20 of 10 classes, shortcut $shortcut, as " "$log" || fail "$file is not recognised"
    grep -qF "; mean $mean, std " "$log" || fail "the normalisation of $file is not said"
    grep -qF "note: this mean and std are a guess from the names of the layers" "$log" || fail "a guess is not called one"
    [ "$(grep -c '^  --mean .* --std ' "$log")" = 5 ] && ! grep -qF -- "--mean $mean --std $std " "$log" ||
      fail "the other normalisations are not named"
    correct=$(field test_correct eval.json)
    [ $((correct - wanted)) -ge -2 ] && [ $((correct - wanted)) -le 2 ] || fail "$file: $correct correct, not $wanted"
    for kind in safetensors pth; do
      succeeds "$bin/rondo-weights" convert "$weights/$file" "copy.$kind"
      succeeds "$bin/rondo-weights" diff "$weights/$file" "copy.$kind"
      grep -q '^equal: [0-9]* tensors$' "$log" || fail "diff of $file and its copy"
      succeeds "$bin/rondo-weights" ls "copy.$kind"
      grep -q '^[0-9]* tensors, [0-9]* elements, [0-9]* bytes$' "$log" || fail "ls copy.$kind"
      succeeds "$bin/cifar_resnet" --weights "copy.$kind" --eval --limit 500 --json "$kind.json"
    done
    [ "$(field test_correct safetensors.json)" = "$(field test_correct pth.json)" ] || fail "copies count otherwise"
  done
  succeeds "$bin/cifar_resnet" --weights "$weights/cifar10_resnet20_zip.pth" --eval --mean 0,0,0 --std 1,1,1 --limit 500
  grep -qF "mean 0,0,0, std 1,1,1" "$log" && ! grep -q "are a guess" "$log" || fail "--mean and --std do not override"
  fails_saying "is not a known CIFAR ResNet (its conv1.weight is [8, 1, 3, 3], not [16, 3, 3, 3])" "$bin/cifar_resnet" --weights "$weights/mnist_cnn.pt" --eval --limit 500
  succeeds "$bin/rondo-weights" convert "$weights/cifar10_resnet20_legacy.th" stripped.safetensors --strip module.
  grep -aq '"format":"pt"' stripped.safetensors || fail "what reads weights is not told whose layout they have"
  succeeds "$bin/rondo-weights" convert stripped.safetensors part.safetensors --rename '^=model.net.'
  succeeds "$bin/cifar_resnet" --weights part.safetensors --eval --limit 500
  grep -qF "part.safetensors: resnet20 of 10 classes, shortcut a, as akamaster" "$log" || fail "a prefix of its own is not recognised"
  succeeds "$bin/rondo-weights" convert stripped.safetensors renamed.pth --rename '^linear\.(.*)=fc.$1' --ignore '^fc\.bias'
  succeeds "$bin/rondo-weights" ls renamed.pth
  grep -q '^fc.weight ' "$log" && ! grep -q 'linear\|fc.bias' "$log" || fail "--rename and --ignore"
  fails_saying "--rename linear: is not FROM=TO" "$bin/rondo-weights" convert stripped.safetensors x.pth --rename linear
  fails_saying "is not a regular expression" "$bin/rondo-weights" convert stripped.safetensors x.pth --ignore '('
  [ ! -e x.pth ] || fail "a refused convert wrote a file"
  # Their value for other images is 15 points or more. The test uses few images, to be fast.
  succeeds "$bin/04_fine_tune" --weights "$weights/cifar10_resnet20_zip.pth" --images 500 --test-images 500 --epochs 1
  worth=$(sed -n 's/^the pretrained weights gain \(-\{0,1\}[0-9]*\)\..* points$/\1/p' "$log")
  [ "${worth:-0}" -ge 5 ] || fail "weights of another task are worth '$worth' points"
  fails_saying "weights nowhere.pth: neither a file nor a known name" "$bin/04_fine_tune" --weights nowhere.pth --images 100
  fails_saying "does not begin with it" "$bin/rondo-weights" convert stripped.safetensors x.pth --strip module.
  fails_saying "only in" "$bin/rondo-weights" diff stripped.safetensors "$weights/cifar10_resnet20_legacy.th"
  fails_saying "weights.h5: the ending names the format; it must be .safetensors or .pth or .pt" "$bin/rondo-weights" convert stripped.safetensors weights.h5
  fails_saying "cannot read /nowhere: No such file" "$bin/rondo-weights" ls /nowhere
  fails_saying "standard output cannot be written" bash -c "\"$bin/rondo-weights\" ls stripped.safetensors >/dev/full"
  # The checkpoint of a network with the other kind of shortcut records that.
  succeeds "$bin/cifar_resnet" --shortcut b --epochs 1 --limit 256 --lr 0.01 --checkpoint-dir b --json b.json
  succeeds "$bin/cifar_resnet" --eval --limit 256 --checkpoint-dir b --json again.json
  [ "$(field test_correct b.json)" = "$(field test_correct again.json)" ] || fail "--eval of shortcut b counts otherwise"
  succeeds "$bin/rondo-weights" convert b/checkpoint.safetensors b.pth --only model.
  succeeds "$bin/cifar_resnet" --eval --limit 256 --weights b.pth --mean 0.4914,0.4822,0.4465 --std 0.2470,0.2435,0.2616 --json pth.json
  [ "$(field test_correct b.json)" = "$(field test_correct pth.json)" ] || fail "a checkpoint's weights in .pth count otherwise"
  head -c 100000 "$weights/cifar10_resnet20_zip.pth" >cut.pth
  fails_saying "cut.pth: " "$bin/rondo-weights" convert cut.pth x.safetensors
  [ ! -e x.safetensors ] && [ ! -e x.pth ] && [ ! -e weights.h5 ] || fail "half a file is left"
  ;;
accuracy) # slow: the accuracy of docs/results.md, on real data
  [ -n "${RONDO_DATA:-}" ] && [ -d "$RONDO_DATA/cifar-10-batches-bin" ] || exit 77
  timeout 7000 "${mpirun[@]}" -np 2 "$bin/cifar_resnet" --epochs 12 --json result.json >"$log" 2>&1 || fail "status $?"
  # Seeds give 87.4 to 87.9 %, so one point lower is not an accident.
  [ "$(field test_correct result.json)" -ge 8650 ] || fail "only $(field test_correct result.json) of 10000 correct"
  ;;
convergence) # slow: compressed gradients and all kinds of averaging learn Fashion-MNIST as well as DDP, to half a point
  [ -n "${RONDO_DATA:-}" ] && [ -d "$RONDO_DATA/MNIST" ] || exit 77
  # correct_with FLAGS…: the number of correct images out of 30,000, over three seeds. Averages within a machine
  # differ from those over all ranks only if there are two machines. Two simulated hosts with two ranks each are
  # used, or the case is skipped with a message.
  correct_with() {
    local sum=0 status start=("${mpirun[@]}" -np 2)
    case "$*" in
    *--average-node-every*) start=("$extras/cluster/multihost.sh" --hosts 2 --ranks-per-host 2 --mpi "-x RONDO_DATA" --) ;;
    esac
    for seed in 1 2 3; do
      status=0
      timeout 600 "${start[@]}" "$bin/fashion_mlp" --epochs 5 --seed $seed --checkpoint-dir "$work/run" "$@" \
        --json "$work/result.json" >"$log" 2>&1 || status=$?
      if [ $status = 77 ] && [[ ${start[0]} == */multihost.sh ]]; then
        echo "skipped $*: $(tail -n 1 "$log")"
        return
      fi
      [ $status = 0 ] || fail "status $status with $*"
      sum=$((sum + $(field test_correct result.json)))
    done
    echo "$sum $*"
  }
  plain=$(correct_with --sync ddp) || exit 1
  echo "$plain"
  for flags in "--compress fp16" "--compress bf16" "--compress topk:0.01" "--compress powersgd:2" "--compress sign" \
    "--compress int8" "--sync average --average-every 8" "--sync average --average-every 8 --average-warmup 500" \
    "--sync average --average-every 16 --average-node-every 4" \
    "--sync average --average-every 16 --outer-lr 0.15 --outer-momentum 0.9" \
    "--sync average --average-every 4 --average-async"; do
    # shellcheck disable=SC2086  # several words
    result=$(correct_with $flags) || { echo "$result"; exit 1; }
    echo "$result"
    [ "${result%% *}" = skipped ] || [ "${result%% *}" -ge $((${plain%% *} - 150)) ] || failed=1
  done
  [ -z "${failed:-}" ] || fail "more than half a point below DDP"
  ;;
*) fail "unknown case $case" ;;
esac
echo "passed"
