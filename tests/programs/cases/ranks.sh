# The same world on 2 ranks, by rondo's ring and by MPI; averaging.
use_few_images
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
