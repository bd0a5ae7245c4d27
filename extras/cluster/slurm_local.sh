#!/usr/bin/env bash
# Tests extras/cluster/train.sbatch, including failures, on a Slurm cluster of two nodes that are both this
# machine.
#
#   extras/cluster/slurm_local.sh [BIN_DIR]        the folder of cifar_resnet (default build/bin)
#
# Needs root and the packages slurm-wlm and munge. Starts a controller and two node daemons in a temporary
# folder, with their own configuration, ports and key, independent of any Slurm on the machine.
#
#   1. The first job trains undisturbed.
#   2. A job with the same flags loses a rank by kill -9 after a checkpoint was written, goes back to the queue, and
#      resumes. It is then stopped by SIGTERM, as before its time limit, goes back to the queue, and resumes to the end.
#
# Both jobs must end with bit-identical parameters. The script always cleans up when it ends.
#
# LAUNCH     the command that starts the ranks, as for train.sbatch: LAUNCH="mpirun --allow-run-as-root"
# KEEP=DIR   also copies all logs and files to DIR at the end, to examine a failure
#
# Exit status: 0 only if all checks passed; 77 if the machine cannot run them; otherwise 1, with the reason
# and the end of the log that shows it.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/help.sh"
at_most 1 "$@"
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=scripts/within.sh
. "$repository/scripts/within.sh"
bin=${1:-$repository/build/bin}

cannot() {
  echo "slurm_local.sh: skipped: $*"
  exit 77
}
[ "$(id -u)" -eq 0 ] || cannot "only root can start Slurm's daemons"
for command in munged slurmctld slurmd sbatch srun scontrol squeue scancel; do
  command -v $command >/dev/null || cannot "$command is not installed; apt-get install slurm-wlm munge"
done
program=$bin/cifar_resnet
if [ ! -x "$program" ]; then
  echo "slurm_local.sh: $program does not exist; build it, or name the folder it is in" >&2
  exit 2
fi
program=$(realpath "$program")

work=$(mktemp -d "${TMPDIR:-/tmp}/rondo-slurm.XXXXXX")

# ---- Cleanup. Slurm's daemons and everything that they start have the folder in their environment, or as
# working directory: slurmstepd clears its environment.
ours() {
  { # only two processes: one for each process of the machine would take seconds
    grep -lzxF "RONDO_SLURM_LOCAL=$work" /proc/[0-9]*/environ
    find /proc -maxdepth 2 -name cwd -lname "$work*"
  } 2>/dev/null | cut -d/ -f3 | sort -u || true
}
tear_down() {
  local left signal=TERM since=$SECONDS
  while
    left=$(ours)
    [ -n "$left" ]
  do
    xargs kill "-$signal" <<<"$left" || true
    # Only the first signal is SIGTERM; a controller that is killed at once leaves its helper running.
    signal=0
    if [ $((SECONDS - since)) -gt 2 ]; then signal=KILL; fi
    if [ $((SECONDS - since)) -gt 15 ]; then break; fi
    sleep 0.2
  done
  rm -rf "$work" || { sleep 1 && rm -rf "$work"; } # a process may just have written there
}
# Another process does the cleanup. It reads from this script, so it notices the end in any case: a test
# that takes too long is ended by SIGKILL, with its children, and then no trap runs.
exec {alive}> >( (
  trap '' INT TERM HUP
  cat >/dev/null
  tear_down
) <&0 >/dev/null 2>&1 &)
# shellcheck disable=SC2317,SC2329 # called by the trap
finish() {
  local status=$?
  trap '' INT TERM HUP
  if [ -n "${KEEP:-}" ] && mkdir -p "$KEEP"; then cp -r "$work/." "$KEEP/" 2>/dev/null || true; fi
  unset RONDO_SLURM_LOCAL # programs started from here on do not belong to the cluster
  exec {alive}>&-
  within 30 test ! -e "$work" || echo "slurm_local.sh: $work could not be removed" >&2
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

fail() { # SENTENCE [LOG…]
  local log
  echo "slurm_local.sh: FAILED: $1" >&2
  for log in "${@:2}"; do
    echo "---- the end of ${log##*/}:" >&2
    tail -n 25 "$log" >&2 || true
  done
  exit 1
}

# ---- The cluster.
host=$(hostname -s)
ports=()
while [ ${#ports[@]} -lt 3 ]; do # below the range of client ports
  port=$((20000 + RANDOM % 10000))
  if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && [[ " ${ports[*]} " != *" $port "* ]]; then ports+=("$port"); fi
done
mkdir -p "$work"/{state,n1,n2,tmp,munge}
head -c 1024 /dev/urandom >"$work/munge/key"
chmod 600 "$work/munge/key"
cat >"$work/slurm.conf" <<END
ClusterName=rondo
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$work/munge/socket
StateSaveLocation=$work/state
SlurmctldPidFile=$work/slurmctld.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdPidFile=$work/%n/slurmd.pid
SlurmdLogFile=$work/%n.log
SlurmdSpoolDir=$work/%n
TmpFS=$work/%n
# No control groups and no binding, because the nodes share this machine's cores.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=pmix
PropagateResourceLimits=NONE
MailProg=/bin/true
ReturnToService=2
KillWait=10
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=1
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=1
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END
# Temporary files and shared memory of Slurm, MPI and PMIx are also in the folder. If this script itself
# runs in a job, the cluster must not see that job's variables.
while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(SLURM|SBATCH|SRUN|OMPI|PMIX|PMI)_' || true)
export RONDO_SLURM_LOCAL=$work SLURM_CONF=$work/slurm.conf TMPDIR=$work/tmp
export OMPI_MCA_btl_vader_backing_directory=$work/tmp OMP_WAIT_POLICY=passive

# The daemons get their own sessions, so that Ctrl-C ends only this script, which then ends them. They run
# in the folder, as does everything that they start.
daemon() { # LOG COMMAND…
  setsid env -C "$work" "${@:2}" </dev/null >"$work/$1" 2>&1 {alive}>&- &
  disown
}
# --force: the socket need not be accessible to all users.
daemon munged.log munged --force --foreground --socket="$work/munge/socket" --key-file="$work/munge/key" \
  --pid-file="$work/munge/pid" --seed-file="$work/munge/seed" --log-file="$work/munge/log" --num-threads=2
within 20 test -S "$work/munge/socket" || fail "munged did not start" "$work/munged.log"
daemon slurmctld.out slurmctld -D -i
daemon n1.out slurmd -D -N n1
daemon n2.out slurmd -D -N n2
nodes_are_idle() { [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ]; }
within 60 nodes_are_idle || fail "the two nodes did not become ready" "$work"/{slurmctld,n1,n2}.{out,log}
if [ -z "${LAUNCH:-}" ] && ! srun --mpi=list 2>&1 | grep -qw pmix; then
  cannot "this Slurm has no PMIx plugin (srun --mpi=list); LAUNCH=\"mpirun --allow-run-as-root\" does without"
fi
echo "slurm_local.sh: $(slurmctld -V), nodes n1 and n2 on $host"

# ---- The jobs.
flags=(--dataset fashion_mnist --limit 384 --batch 48 --lr 0.05 --threads 1 --epochs 5 --checkpoint-every 2)
# submit NAME: sets $job, $log and $run_dir.
submit() {
  run_dir=$work/$1 log=$work/$1.log
  job=$(cd "$work" && PROGRAM=$program RUN_DIR=$run_dir sbatch --parsable --output="$log" \
    "$repository/extras/cluster/train.sbatch" "${flags[@]}" --json "$work/$1.json") || fail "sbatch refused the job"
}
state() { scontrol -o show job "$job" | sed -n 's/.* JobState=\([A-Z_]*\) .*/\1/p'; }
has_ended() { [[ $(state) =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; }
# finished NAME: waits for the successful end of the job.
finished() {
  within 240 has_ended || fail "job $1 was $(state) after four minutes" "$log" "$work/slurmctld.log"
  [ "$(state)" = COMPLETED ] || fail "job $1 ended as $(state)" "$log" "$work/slurmctld.log"
}
parameters() { sed -n 's/^ *"param_hash": "\([0-9a-f]*\)".*/\1/p' "$work/$1.json"; }
ranks() { pgrep -f -- "^$program --checkpoint-dir $run_dir( |\$)"; }
two_ranks() { [ "$(ranks | wc -l)" -eq 2 ]; }
checkpoint() { stat -c '%i %y' "$run_dir/checkpoint.safetensors" 2>/dev/null; }
has_new_checkpoint() { [ -n "$(checkpoint)" ] && [ "$(checkpoint)" != "$1" ]; }
waits() { [ "$(state)" = PENDING ]; }
# Slurm's process for each step of a job lives slightly longer than the ranks.
nothing_runs() {
  local process
  for process in $(ours); do
    if [[ $(tr '\0' ' ' <"/proc/$process/cmdline") == slurmstepd:* ]]; then return 1; fi
  done 2>/dev/null
}
# started_again TIMES: Slurm holds a requeued job for two minutes. Here a few seconds are enough once the
# former start has ended completely: nodes refuse a job within the second in which they were told to end it.
started_again() {
  within 60 waits || fail "the job did not go back to the queue: it is $(state)" "$log" "$work/slurmctld.log"
  within 60 nothing_runs || fail "something of the job still runs though it is back in the queue" "$work"/n?.log
  before=$(checkpoint) # the last one of the former start
  scontrol update JobId="$job" StartTime=now+3
  within 60 two_ranks || fail "the job was not started again: it is $(state)" "$log" "$work/slurmctld.log"
  [ "$(scontrol -o show job "$job" | sed -n 's/.* Restarts=\([0-9]*\) .*/\1/p')" = "$1" ] ||
    fail "Slurm does not count $1 restarts" "$log"
}

submit straight
finished straight
echo "slurm_local.sh: job $job trained undisturbed: $(parameters straight)"

submit disturbed
within 60 has_new_checkpoint "" || fail "no checkpoint after a minute" "$log" "$work/slurmctld.log"
two_ranks || fail "there are not two ranks to kill one of" "$log"
victim=$(ranks | shuf -n 1)
kill -KILL "$victim"
echo "slurm_local.sh: job $job: killed process $victim, one of its two ranks"
started_again 1
echo "slurm_local.sh: job $job: back in the queue and started again"

within 60 has_new_checkpoint "$before" || fail "no further checkpoint after a minute" "$log"
scancel --signal=TERM "$job"
started_again 2
echo "slurm_local.sh: job $job: stopped by SIGTERM, back in the queue and started again"
finished disturbed

[ "$(grep -c -- '--resume' "$log")" -ge 2 ] || fail "the job did not resume" "$log"
# If mpirun starts the ranks, SIGTERM ends its daemons, and these end the ranks.
[[ ${LAUNCH:-srun} == mpirun* ]] || grep -q 'stopped by a signal' "$log" || fail "SIGTERM did not stop the ranks" "$log"
straight=$(parameters straight) disturbed=$(parameters disturbed)
if [ -z "$straight" ] || [ "$straight" != "$disturbed" ]; then
  fail "the disturbed job ended with other parameters: $disturbed, undisturbed $straight" "$log"
fi
echo "slurm_local.sh: job $job ended with the same parameters: $disturbed"
