#!/usr/bin/env bash
# Tests extras/cluster/mpijob.yaml without Kubernetes, including failures. This script simulates the MPI
# Operator, the machines and their network.
#
#   extras/cluster/kubernetes_local.sh [BIN_DIR]      pods have this machine's files, and the programs of a build
#                                              (default build/bin)
#   extras/cluster/kubernetes_local.sh --image DIR    pods have the files of an image of extras/cluster/Containerfile,
#                                              unpacked or mounted in DIR
#
# Each pod has its own files, processes, network, name and shared memory (an overlay and Linux namespaces).
# It runs what the manifest specifies: the command, with the user, groups and privileges of its security
# contexts, and with its environment and volumes. The script adds what the operator adds: the keys, the list
# of hosts, and some variables. It also adds flags to the program, to make it a short training on
# Fashion-MNIST.
#
#   1. The first job trains undisturbed.
#   2. A job with the same flags loses a worker after a checkpoint was written, and ends. It is tried again while that
#      worker is still missing, resumes on a new worker with another address, and is then asked to stop, as when its
#      machine is drained. The third try runs to the end.
#
# Both jobs must end with bit-identical parameters. Not simulated are limits of cores and memory, the filter
# of system calls, and the operator itself; docs/cluster.md has details. The script always removes
# everything when it ends.
#
# Needs root, iproute2, python3-yaml; and, on this machine or in the image, openssh-server, Open MPI and
# dataset-fashion-mnist. (setup.sh does not install openssh-server, because it would let people log in.)
#
# Exit status: 0 only if all checks passed; 77 if the machine cannot run them; otherwise 1, with the reason
# and the end of the log that shows it.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/help.sh"
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=scripts/within.sh
. "$repository/scripts/within.sh"
self=$repository/extras/cluster/${BASH_SOURCE[0]##*/}
files=/dev/shm # the pods' files, in a file system in memory that only they see

cannot() {
  echo "kubernetes_local.sh: skipped: $*"
  exit 77
}

# ---- A pod, called as: --pod NAME ROLE. This becomes its process 1.
if [ "${1:-}" = --pod ]; then
  name=$2 role=$3 group=0 keys_path=
  # shellcheck source=/dev/null
  . $files/job
  declare -n command=${role}_command environment=${role}_environment mounts=${role}_mounts setpriv=${role}_setpriv
  hostname "$name"
  here=$files/pods/$BASHPID.$name
  root=$here/root
  mkdir -p "$here"/{upper,work,root,keys}
  mount -t overlay overlay -o "lowerdir=$image,upperdir=$here/upper,workdir=$here/work" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for device in null zero full random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  ln -s /proc/self/fd "$root/dev/fd"
  mkdir "$root/dev/shm"
  mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/dev/shm" # like container engines
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  if [ -n "$programs" ]; then # like extras/cluster/Containerfile
    mount --bind "$programs" "$root/usr/local/bin"
    cp "$repository/extras/cluster/sshd_config" "$root/etc/ssh/sshd_mpi_config"
    cp "$repository/extras/cluster/ssh_config" "$root/etc/ssh/ssh_config.d/mpi.conf"
    mkdir -p "$root/home/mpi"
    chown 1000:1000 "$root/home/mpi"
    sed -i '/^mpi:/d;/^[^:]*:[^:]*:1000:/d' "$root/etc/passwd"
    echo "mpi:x:1000:1000::/home/mpi:/bin/sh" >>"$root/etc/passwd"
  fi
  : >>"$root/etc/hosts"
  mount --bind $files/hosts "$root/etc/hosts"
  for mount in "${mounts[@]}"; do
    path=$root${mount#*:}
    mkdir -p "$path"
    case ${mount%%:*} in
    claim) mount --bind $files/claim "$path" ;;
    memory) mount -t tmpfs -o "mode=2777,gid=$group" tmpfs "$path" ;;
    esac
  done
  # The keys are links to files that belong to root, as in Kubernetes.
  path=$root$keys_path
  mkdir -p "$path"
  mount -t tmpfs -o "mode=3777,gid=$group" tmpfs "$path"
  mkdir -m 2755 "$path/..1"
  install -m 644 -g "$group" -t "$path/..1" $files/keys/*
  ln -s ..1 "$path/..data"
  for file in "$files"/keys/*; do ln -s "..data/${file##*/}" "$path/${file##*/}"; done
  mount -o remount,ro "$path"
  if [ "$role" = launcher ]; then
    mkdir -p "$root/etc/mpi"
    install -m 444 $files/hostfile "$root/etc/mpi/hostfile"
  fi
  exec chroot "$root" setpriv "${setpriv[@]}" env -i -C /home/mpi HOME=/home/mpi HOSTNAME="$name" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${environment[@]}" "${command[@]}"
fi

# ---- Outside: check the requirements, and start the cluster.
if [ "${1:-}" != --cluster ]; then
  image=/ programs=
  if [ "${1:-}" = --image ]; then
    if [ ! -x "${2:-}/usr/local/bin/cifar_resnet" ]; then
      echo "kubernetes_local.sh: ${2:-} is not an unpacked image of extras/cluster/Containerfile" >&2
      exit 2
    fi
    image=$(realpath "$2")
  else
    at_most 1 "$@"
    programs=${1:-$repository/build/bin}
    if [ ! -x "$programs/cifar_resnet" ]; then
      echo "kubernetes_local.sh: $programs/cifar_resnet does not exist; build it, or name the folder it is in" >&2
      exit 2
    fi
    programs=$(realpath "$programs")
  fi
  [ "$(id -u)" -eq 0 ] || cannot "only root can make pods"
  command -v ip >/dev/null || cannot "ip is not installed (package iproute2)"
  command -v ssh-keygen >/dev/null || cannot "ssh-keygen is not installed (package openssh-client)"
  python3 -c 'import yaml' 2>/dev/null || cannot "Python cannot read YAML (package python3-yaml)"
  for file in usr/sbin/sshd:openssh-server usr/bin/ssh:openssh-client usr/bin/orted:openmpi-bin \
    usr/share/datasets/fashion-mnist:dataset-fashion-mnist; do
    [ -e "$image/${file%:*}" ] || cannot "/${file%:*} does not exist (package ${file#*:})"
  done
  if [ -n "$programs" ] && ldd "$programs/cifar_resnet" | grep -q libmpich; then
    cannot "the manifest starts ranks with Open MPI; this build is for MPICH"
  fi
  spaces=(--mount --net --uts --ipc --pid --fork --kill-child --mount-proc)
  said=$(unshare "${spaces[@]}" true 2>&1) || cannot "root may not make namespaces: $said"

  # When this process ends, the first process of the cluster ends, and then the kernel removes all of it.
  setpriv --pdeathsig KILL unshare "${spaces[@]}" bash "$self" --cluster "$image" "$programs" </dev/null &
  cluster=$!
  # shellcheck disable=SC2317,SC2329 # called by traps
  stop() {
    trap '' INT TERM HUP
    kill -KILL "$cluster" 2>/dev/null || true
    wait "$cluster" 2>/dev/null || true
    exit "$1"
  }
  trap 'stop 130' INT
  trap 'stop 143' TERM
  trap 'stop 129' HUP
  status=0
  wait $cluster || status=$?
  exit $status
fi

# ---- The cluster. This is process 1 of everything that is visible here.
image=$2 programs=$3
fail() { # SENTENCE [LOG…]
  local log
  echo "kubernetes_local.sh: FAILED: $1" >&2
  for log in "${@:2}"; do
    echo "---- the end of ${log##*/}:" >&2
    tail -n 25 "$log" | tr '\r' '\n' | tail -n 40 >&2 || true
  done
  exit 1
}
# must WHAT COMMAND…: runs a step that the cluster needs; skips the test if it fails.
must() {
  local what=$1 said
  shift
  said=$("$@" 2>&1) || cannot "$what: $said"
}

must "no file system in memory" mount -t tmpfs -o mode=755 tmpfs $files
mkdir $files/{pods,keys,claim,try}
must "no overlay of files" mount -t tmpfs tmpfs $files/try
mkdir $files/try/{upper,work,root}
must "no overlay of files" mount -t overlay overlay \
  -o "lowerdir=$image,upperdir=$files/try/upper,workdir=$files/try/work" $files/try/root
umount $files/try/root $files/try
must "no file system in memory" mount -t tmpfs tmpfs /run # ip stores its names there
must "no network" ip link set lo up
# The bridge needs a fixed address, which pods remember. Otherwise it takes the address of a port, and
# changes when ports change.
must "no bridge, the pods' network" ip link add pods address 02:00:00:00:00:01 type bridge
must "no address" ip addr add 10.244.0.1/24 dev pods
must "no bridge, the pods' network" ip link set pods up

# Converts the manifest to shell variables. Kubernetes expands $(NAME) and $$.
python3 - "$repository/extras/cluster/mpijob.yaml" >$files/job <<'PYTHON' || fail "the manifest is not understood"
import re, shlex, sys, yaml

def array(name, values):
    print(f"{name}=({' '.join(shlex.quote(v) for v in values)})")

job = yaml.safe_load(open(sys.argv[1]))
spec = job["spec"]
print(f"job={shlex.quote(job['metadata']['name'])} slots={spec['slotsPerWorker']}"
      f" keys_path={shlex.quote(spec['sshAuthMountPath'])}")
for role, replica in spec["mpiReplicaSpecs"].items():
    pod, role = replica["template"]["spec"], role.lower()
    print(f"{role}s={replica['replicas']}")
    container, = pod["containers"]
    context = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    variables = {v["name"]: v["value"] for v in container.get("env", [])}
    def expanded(text):
        return re.sub(r"\$\$|\$\((\w+)\)", lambda m: "$" if m[0] == "$$" else variables.get(m[1], m[0]), text)
    array(f"{role}_command", map(expanded, container["command"] + container.get("args", [])))
    array(f"{role}_environment", (f"{k}={v}" for k, v in variables.items()))
    # Without fsGroup, volumes are root's.
    group = context.get("fsGroup", 0)
    print(f"group={group}")
    privileges = [f"--reuid={context['runAsUser']}", f"--regid={context.get('runAsGroup', 1000)}",
                  f"--groups={group}" if group else "--clear-groups", "--inh-caps=-all"]
    if "ALL" in context.get("capabilities", {}).get("drop", []):
        privileges.append("--bounding-set=-all")
    if not context.get("allowPrivilegeEscalation", True):
        privileges.append("--no-new-privs")
    array(f"{role}_setpriv", privileges)
    kinds = {v["name"]: "claim" if "persistentVolumeClaim" in v else "memory" for v in pod["volumes"]}
    array(f"{role}_mounts", (f"{kinds[m['name']]}:{m['mountPath']}" for m in container["volumeMounts"]))
PYTHON
# shellcheck source=/dev/null
. $files/job
# shellcheck disable=SC2154 # from the manifest
{
  # What the operator adds, and settings for four ranks on two cores, which the ranks get from the launcher.
  cat >>$files/job <<END_OF_JOB
image=$(printf %q "$image") programs=$(printf %q "$programs")
launcher_environment+=(K_MPI_JOB_ROLE=launcher OMPI_MCA_orte_keep_fqdn_hostnames=true
  OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile "OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10"
  OMPI_MCA_orte_set_default_slots=$slots OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive)
worker_environment+=(K_MPI_JOB_ROLE=worker)
launcher_command+=(--dataset fashion_mnist --limit 384 --batch 48 --lr 0.05 --threads 1 --epochs 6 --checkpoint-every 2)
. $files/this_launcher
END_OF_JOB
  : >$files/this_launcher
  for ((i = 0; i < workers; ++i)); do echo "$job-worker-$i.$job.default.svc slots=$slots"; done >$files/hostfile
  # A new claim belongs to root; Kubernetes gives it to the group of the pods.
  if [ "$group" != 0 ]; then
    chgrp "$group" $files/claim
    chmod 2775 $files/claim
  fi
}
ssh-keygen -q -t ecdsa -b 521 -m PEM -N '' -C '' -f $files/keys/id_rsa
cp $files/keys/id_rsa.pub $files/keys/authorized_keys

# The names that can be resolved: those of workers that answer.
declare -A address_of pod_of
names() {
  local name
  echo 127.0.0.1 localhost
  for name in "${!address_of[@]}"; do echo "${address_of[$name]} $name.$job.default.svc $name"; done
}
names >$files/hosts # modified in place, never replaced, because it is mounted
# pod NAME ROLE LOG: starts a pod with a new address.
last=1
pod() {
  local name=$1 role=$2 log=$3
  ((++last))
  must "no network" ip netns add "net$last"
  must "no link between pods (veth)" ip link add "port$last" type veth peer name eth0 netns "net$last"
  must "no link between pods" ip link set "port$last" master pods up
  must "no network" ip -n "net$last" link set lo up
  must "no network" ip -n "net$last" addr add "10.244.0.$last/24" dev eth0
  must "no network" ip -n "net$last" link set eth0 up
  nsenter --net="/run/netns/net$last" unshare --mount --uts --ipc --pid --fork --kill-child \
    bash "$self" --pod "$name" "$role" >"$log" 2>&1 &
  pod_of[$name]=$!
  address=10.244.0.$last
}
answers() { (: <"/dev/tcp/$1/2222") 2>/dev/null; }
worker() { # NUMBER
  local name=$job-worker-$1
  pod "$name" worker "$files/$name.log"
  within 30 answers "$address" || fail "$name does not answer" "$files/$name.log"
  address_of[$name]=$address
  names >$files/hosts
}
# try NAME LOG: starts the launcher's pod, for a job with its own checkpoints.
try() {
  log=$files/$2.log run_dir=$files/claim/$1
  echo "launcher_environment+=(RUN_DIR=/runs/$1) launcher_command+=(--json /runs/$1.json)" >$files/this_launcher
  pod "$job-launcher" launcher "$log"
}
runs() { kill -0 "${pod_of[$job-launcher]}" 2>/dev/null; }
has_ended() { ! runs; }
# ended SECONDS: sets $status.
ended() {
  within "$1" has_ended || fail "the launcher still runs after $1 seconds" "$log"
  status=0
  wait "${pod_of[$job-launcher]}" || status=$?
}
parameters() { sed -n 's/^ *"param_hash": "\([0-9a-f]*\)".*/\1/p' "$files/claim/$1.json"; }
checkpoint() { stat -c '%i %y' "$run_dir/checkpoint.safetensors" 2>/dev/null; }
has_new_checkpoint() { [ -n "$(checkpoint)" ] && [ "$(checkpoint)" != "$1" ]; }
no_ranks() { ! pgrep -x cifar_resnet >/dev/null; }

for ((i = 0; i < workers; ++i)); do worker $i; done
echo "kubernetes_local.sh: $workers workers with $slots slots each, $([ -n "$programs" ] && echo "programs of $programs" || echo "image $image")"

try straight straight
ended 240
[ $status -eq 0 ] || fail "the launcher ended with status $status" "$log" $files/*-worker-*.log
grep -aq "$((workers * slots)) ranks" "$log" || fail "there were not $((workers * slots)) ranks" "$log"
echo "kubernetes_local.sh: trained undisturbed: $(parameters straight)"

try disturbed first
within 60 has_new_checkpoint "" || fail "no checkpoint after a minute" "$log"
lost=$job-worker-$((workers - 1))
kill -KILL "$(pgrep -P "${pod_of[$lost]}")"
unset "address_of[$lost]"
names >$files/hosts
ended 90
[ $status -ne 0 ] || fail "the launcher ended well without $lost" "$log"
within 15 no_ranks || fail "ranks are left after the launcher's end" "$log"
before=$(checkpoint)
echo "kubernetes_local.sh: first try: lost $lost, ended with status $status"

try disturbed second
sleep 3
runs || fail "the launcher does not wait for $lost" "$log"
no_ranks || fail "ranks were started without $lost" "$log"
worker $((workers - 1))
within 60 has_new_checkpoint "$before" || fail "no further checkpoint after a minute" "$log"
# mpirun waits before it asks the ranks; they must not finish before that.
has_asked() {
  local rank
  pkill -STOP -x cifar_resnet || return 0 # repeatedly, because mpirun continues them
  for rank in $(pgrep -x cifar_resnet); do
    grep -qE '^ShdPnd:.*[4-7c-f]...$' "/proc/$rank/status" || return 1 # bit 14: SIGTERM is pending
  done
}
kill -TERM "$(pgrep -P "${pod_of[$job-launcher]}")"
within 20 has_asked || fail "mpirun does not ask the ranks to end" "$log"
pkill -CONT -x cifar_resnet || true
ended 30 # after that Kubernetes would kill it
[ $status -ne 0 ] || fail "the launcher ended well though it was asked to go" "$log"
grep -aq 'stopped by a signal' "$log" || fail "the ranks wrote no checkpoint when the launcher was asked to go" "$log"
within 15 no_ranks || fail "ranks are left after the launcher's end" "$log"
echo "kubernetes_local.sh: second try: waited for the new $lost, resumed, and was asked to go"

try disturbed third
ended 240
[ $status -eq 0 ] || fail "the launcher ended with status $status" "$log"
straight=$(parameters straight) disturbed=$(parameters disturbed)
if [ -z "$straight" ] || [ "$straight" != "$disturbed" ]; then
  fail "the disturbed job ended with other parameters: $disturbed, undisturbed $straight" "$log"
fi
echo "kubernetes_local.sh: third try: ended with the same parameters: $disturbed"
