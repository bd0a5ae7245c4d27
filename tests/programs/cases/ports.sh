# The programs of PyTorch's examples: each learns from little data.
use_few_images
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
fails_saying "--name 12: none of its letters" "$bin/ports/char_rnn" --data names --name 12
fails_saying "--data: nowhere is not a folder" "$bin/ports/char_rnn" --data nowhere
fails_saying "--limit" "$bin/ports/quickstart" --limit -5
fails_saying "contains no names" "$bin/ports/char_rnn" --data no_names
succeeds "$bin/ports/regression"
grep -q '^loss 0.000' "$log" || fail "regression does not find the polynomial"
succeeds "$bin/ports/reinforce" --episodes 60 --every 20
grep -q '^episode 60: ' "$log" || fail "reinforce prints no episode"
fails_saying "--known 9 must be less than --nodes 9" "$bin/ports/gcn" --known 9 --nodes 9
fails_saying "--data: name a text file" "$bin/ports/word_language_model"
