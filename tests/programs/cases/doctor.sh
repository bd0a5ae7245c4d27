# rondo-doctor: the properties that scripts rely on, on 1 and 2 ranks; its status says whether a run would fail.
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
fails_saying "error: rank 1: not expected: --nosuch" "${mpirun[@]}" -np 2 ./rank_1 --nosuch -- "$bin/rondo-doctor"
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
if ! has_libomp; then
  OMP_NUM_THREADS=some succeeds "$bin/rondo-doctor" --seconds 0
  grep -q 'slow: .*OMP_NUM_THREADS is "some"' "$log" || fail "an odd OMP_NUM_THREADS is not found"
  grep -qE '^  threads +([0-9]+) a rank .*its share: \1\)' "$log" || fail "an odd OMP_NUM_THREADS is used"
fi
