# Unusual or hostile weight files: read if possible, escaped on a terminal, identified.
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
if ! has_libomp; then
  OMP_NUM_THREADS="$(printf '\033[31m')" succeeds "$bin/rondo-doctor" --seconds 0
  shows_no_escapes "rondo-doctor"
fi
header='"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
for ((i = 0; i < 500; ++i)); do header+=",\"c$i\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}"; done
safetensors "{\"$(head -c 1000000 /dev/zero | tr '\0' a)\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},$header}" "" >long.safetensors
succeeds "$bin/rondo-weights" ls long.safetensors
[ "$(wc -c <"$log")" -lt 1200000 ] || fail "every line is as long as the longest name"
