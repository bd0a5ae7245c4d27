# Bad input: one sentence, a status, no hang, no partial files.
[ -z "${RONDO_DATA:-}" ] || use_few_images # parts of it need RONDO_DATA
fails_saying "resnet21" "$bin/cifar_resnet" --model resnet21
fails_saying "not expected: --nosuch 1 --other 2;" "$bin/cifar_resnet" --nosuch 1 --other 2
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
