# `kill -9` of mpirun: its ranks end too.
use_few_images
printf '#!/bin/sh\necho $$ >"process.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"\nexec "$@"\n' >note && chmod +x note
"${mpirun[@]}" -np 2 ./note "${resnet[@]}" --epochs 1000 --checkpoint-dir stopped --checkpoint-every 1 >"$log" 2>&1 &
pid=$!
until_checkpoint
kill -KILL $pid || fail "mpirun had ended before it was killed"
wait $pid 2>/dev/null
living() { ps -o stat= -p "$(cat process.0)" -p "$(cat process.1)" | grep -v '^Z'; }
for _ in $(seq 200); do living >/dev/null && sleep 0.1 || break; done
! living >/dev/null || { kill -KILL $(cat process.0 process.1) 2>/dev/null; fail "a rank lives on 20 s after mpirun"; }
