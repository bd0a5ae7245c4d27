# Every program with --device cuda.
[ -z "${RONDO_DATA:-}" ] || use_few_images # parts of it need RONDO_DATA
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
# The benchmarks of scripts/gpu_check.sh, with small tensors.
succeeds "$(on_gpu gpu_kernels)" --mib 1 --json kernels.json
[ "$(grep -c '"of_copy"' kernels.json)" -ge 30 ] || fail "gpu_kernels: $(grep -c '"of_copy"' kernels.json) kernels in its JSON"
grep -q '"flop_per_s"' kernels.json || fail "gpu_kernels: no products in its JSON"
all_reduce=$(on_gpu all_reduce)
has_gpu || all_reduce=$bin/simulated_gpu_all_reduce
succeeds "${mpirun[@]}" -np 2 "$all_reduce" --device cuda --all-reduce mpi --max-bytes 65536 --repeat 3 --json sums.json
grep -q '"algorithm"' sums.json || fail "all_reduce --device cuda: no algorithm in its JSON"
if [ -n "${RONDO_DATA:-}" ]; then
  weights=$RONDO_DATA/weights/cifar10_resnet20_zip.pth
  succeeds "$(on_gpu 04_fine_tune)" --weights "$weights" --images 50 --test-images 4 --epochs 1 --device cuda
  [ ! -x "$bin/speedrun" ] || succeeds "$(on_gpu speedrun)" --limit 1 --batch 1 --test-limit 1 --epochs 1 --device cuda --amp bf16
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
