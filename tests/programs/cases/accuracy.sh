# Slow: the accuracy of docs/results.md, on real data.
[ -n "${RONDO_DATA:-}" ] && [ -d "$RONDO_DATA/cifar-10-batches-bin" ] || exit 77
timeout 7000 "${mpirun[@]}" -np 2 "$bin/cifar_resnet" --epochs 12 --json result.json >"$log" 2>&1 || fail "status $?"
# Seeds give 87.4 to 87.9 %, so one point lower is not an accident.
[ "$(field test_correct result.json)" -ge 8650 ] || fail "only $(field test_correct result.json) of 10000 correct"
