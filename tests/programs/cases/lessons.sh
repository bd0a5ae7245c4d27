# The examples that explain: they succeed and print what they promise.
[ -z "${RONDO_DATA:-}" ] || use_few_images # parts of it need RONDO_DATA
succeeds "$bin/01_autograd"
succeeds "${mpirun[@]}" -np 4 "$bin/03_ring"
grep -q 'rank 3' "$log" || fail "03_ring does not show its last rank"
for _ in $(seq 60); do echo "the quick brown fox jumps over the lazy dog"; done >fox.txt
for model in transformer lstm gru; do
  succeeds "$bin/05_text" --text fox.txt --model $model --steps 60 --every 30 --batch 8 --context 16 --width 32 --layers 1 --sample 20
  grep -q '^2376 bytes for training, 264 for validation, 28 kinds: 4.807 bits each' "$log" || fail "05_text counts otherwise"
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
  succeeds "${mpirun[@]}" -np 2 "$bin/02_resnet" --epochs 2 --limit 400 --batch 32
  awk '/^epoch [12]\/2: loss/ { loss[++n] = $4 + 0 } END { exit !(n == 2 && loss[2] < loss[1] && loss[1] > 0) }' "$log" ||
    fail "02_resnet: two epochs do not lower the loss"
  fails_saying "--batch 33 is not divisible by the 2 ranks" "${mpirun[@]}" -np 2 "$bin/02_resnet" --batch 33
fi
if [ -n "${RONDO_DATA:-}" ] && [ -x "$bin/speedrun" ]; then # the race to 94 %: five steps learn something
  succeeds "$bin/speedrun" --epochs 1 --limit 250 --batch 50 --test-limit 50
  awk '/^  epoch 1: loss/ { seen = 1; bad = $NF >= 2.27 } END { exit bad || !seen }' "$log" || fail "speedrun has learned nothing" # begins at 2.30
  fails_saying "--batch: 251 is above the number of training images, 250" "$bin/speedrun" --limit 250 --batch 251
fi
if [ -n "${RONDO_DATA:-}" ]; then # an MLP and a ResNet in int8: at most half a point lost, a quarter of the size
  for model in mlp resnet; do
    succeeds "$bin/06_quantize" --model $model --weights "$RONDO_DATA/weights/cifar10_resnet20_zip.pth" --train-steps 300 --test-images 1000 --qat-steps 5 --save $model
    awk '$3 == "%" { right[$1] = $2; size[$1] = $5; n++ }
         END { for (k in right) if (k != "f32" && (right[k] < right["f32"] - 0.5 || size[k] * 3.5 > size["f32"])) bad = 1; exit bad || n < 2 }' "$log" ||
      fail "06_quantize --model $model loses too much, or saves too little"
  done
fi
# A network that learns while a simulation runs: identical in two runs, and far better than no prediction.
export OMPI_MCA_btl_tcp_if_include=lo # or Open MPI 5 warns (choose_addresses in dist/transports/mpi/mpi_start.cpp)
succeeds "${mpirun[@]}" -np 2 "$bin/07_simulation"
awk '/^6 steps ahead/ { seen = 1; bad = $(NF - 2) < 4 } END { exit bad || !seen }' "$log" || fail "07_simulation has learned too little"
awk '/^pair/ { if (!n++) first = $NF; last = $NF } END { exit n < 3 || last > first / 4 }' "$log" || fail "07_simulation: the error does not fall"
cp "$log" simulation.1
succeeds "${mpirun[@]}" -np 2 "$bin/07_simulation"
cmp simulation.1 "$log" || fail "07_simulation differs between two runs"
fails_saying "07_simulation: 64 rows cannot be divided among 3 ranks; start 1, 2, 4, 8 or 16" "${mpirun[@]}" -np 3 "$bin/07_simulation"
fails_saying "nothing.pth" "$bin/06_quantize" --model resnet --weights nothing.pth
echo short >short.txt
fails_saying "6 characters are too few for windows of 64" "$bin/05_text" --text short.txt
fails_saying "--data: 6 characters are too few for windows of 65" "$bin/08_gpt" --data short.txt
fails_saying "short.txt: 6 bytes are too few for windows of 33" "$bin/09_lora" --data short.txt --adapt short.txt
