# Slow: compressed gradients and all kinds of averaging learn Fashion-MNIST as well as DDP, to half a point.
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
