# Files from other projects: identified, with as many correct test images as in PyTorch, and converted.
# Cases: weights, weights_slow.
weights=${RONDO_DATA:-}/weights
[ -n "${RONDO_DATA:-}" ] && [ -e "$weights/cifar10_resnet20_legacy.th" ] || exit 77
# PyTorch's counts of the first 2,000 test images and of all 10,000; a tie or a rounding may change them by an image or two.
limit=2000
[ "$case" = weights ] || limit=10000
for line in "cifar10_resnet20_legacy.th 1834 9173 a 0.485,0.456,0.406 0.229,0.224,0.225" "cifar10_resnet20_zip.pth 1849 9262 b 0.4914,0.4822,0.4465 0.2023,0.1994,0.201"; do
  read -r file wanted all_wanted shortcut mean std <<<"$line"
  [ "$case" = weights ] || wanted=$all_wanted
  succeeds "$bin/cifar_resnet" --weights "$weights/$file" --eval --limit $limit --json eval.json
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
