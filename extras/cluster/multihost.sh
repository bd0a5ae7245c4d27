#!/usr/bin/env bash
# Runs a program with mpirun on several hosts simulated by this machine, to test and measure communication
# between machines.
#
#   extras/cluster/multihost.sh [options] -- PROGRAM [ARGUMENT…]
#
#   --hosts N             2 to 4 hosts, host1 to hostN (2)
#   --ranks-per-host N    ranks on each host (1)
#   --rate RATE           rate of each host's link, in each direction, as for tc: 1gbit, 200mbit
#                         (default: as fast as this machine copies)
#   --delay TIME          delay of a packet from one host to another: 100us, 5ms (0)
#   --loss PERCENT        percentage of packets that are lost: 0.1 (0)
#   --mpi "WORDS"         additional arguments for mpirun: "-x NAME", "--tag-output"
#
#   extras/cluster/multihost.sh --rate 1gbit -- build/bin/cifar_resnet --epochs 1
#
# Each host has its own network, name, processes and shared memory (Linux namespaces). So ranks on two hosts
# do not see each other's processes and share no memory: they can only exchange messages. The hosts have the
# files of this machine. Links (veth) connect the hosts to a switch (a bridge) on one more host, head, where
# mpirun runs; head starts processes on the others with nsenter instead of ssh. If this machine has at least
# as many cores as hosts, the cores are divided among the hosts. Nothing of this is visible or has a name
# outside, so runs do not disturb each other. The kernel removes everything when the first process ends,
# even if it is killed.
#
# SIGINT, SIGTERM and SIGHUP stop the run as in scripts/run_ranks.sh: the ranks get SIGTERM and end at their
# next common step; a second signal ends everything at once.
#
# Needs Open MPI, iproute2, and root or unprivileged user namespaces.
#
# Exit status: that of the run; 128 + signal if a signal stopped it; 2 for wrong arguments; 77 if this
# machine cannot do it, with the reason.
set -u # but not -e: a trap has to do all of its work
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/help.sh"

usage() {
  echo "multihost.sh: $1; see multihost.sh --help" >&2
  exit 2
}
unable() {
  echo "multihost.sh: not possible on this machine: $1" >&2
  exit 77
}

inside=0
if [ "${1:-}" = --inside ]; then # this script starts itself again, as head
  inside=1
  shift
  asked=0
  trap 'asked=1' TERM # immediately: process 1 ignores the signal until there is a trap
fi
arguments=("$@")

hosts=2 ranks=1 rate='' delay='' loss='' mpi=()
number() { # OPTION VALUE LEAST MOST
  [[ $2 =~ ^[1-9][0-9]{0,3}$ ]] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] && return
  usage "$1 $2 is not a number from $3 to $4"
}
while [ $# -gt 0 ]; do
  option=$1
  case $option in
  --)
    shift
    break
    ;;
  --hosts | --ranks-per-host | --rate | --delay | --loss | --mpi)
    [ $# -ge 2 ] || usage "$option needs a value"
    value=$2
    shift 2
    ;;
  --hosts=* | --ranks-per-host=* | --rate=* | --delay=* | --loss=* | --mpi=*)
    value=${option#*=} option=${option%%=*}
    shift
    ;;
  -*) usage "unknown option $option" ;;
  *) break ;;
  esac
  case $option in
  --hosts) number --hosts "$value" 2 4 && hosts=$value ;;
  --ranks-per-host) number --ranks-per-host "$value" 1 64 && ranks=$value ;;
  --rate)
    value=${value,,}
    [[ $value =~ ^[0-9]+(\.[0-9]+)?([kmgt]i?)?(bit|bps)$ && $value =~ [1-9] ]] || usage "--rate $value is not a rate, like 1gbit"
    rate=$value
    ;;
  --delay)
    [[ $value =~ ^([0-9]+(\.[0-9]+)?(us|ms|s)|0)$ ]] || usage "--delay $value is not a time, like 100us"
    delay=$value
    [[ $value =~ [1-9] ]] || delay=
    ;;
  --loss)
    [[ $value =~ ^[0-9]{1,2}(\.[0-9]+)?%?$ ]] || usage "--loss $value is not a percentage, like 0.1"
    loss=${value%\%}%
    [[ $value =~ [1-9] ]] || loss=
    ;;
  --mpi) read -ra mpi <<<"$value" ;;
  esac
done
[ $# -gt 0 ] || usage "no program was given"

# ---- Outside: start head; run_ranks.sh passes signals to it and reports how it ended.
if [ $inside -eq 0 ]; then
  command -v mpirun >/dev/null || unable "mpirun is not installed (package openmpi-bin)"
  # (Ubuntu 26.04's cannot print its version, and names a file that only Open MPI has.)
  mpirun --version 2>&1 | grep -q "Open MPI\|schizo-ompi" ||
    unable "mpirun is not Open MPI's, whose flags are used here"
  for tool in ip tc; do command -v $tool >/dev/null || unable "$tool is not installed (package iproute2)"; done

  spaces=(--net --uts --ipc --mount --pid --fork --kill-child)
  who=root
  if [ "$(id -u)" -ne 0 ]; then
    spaces=(--user --map-root-user "${spaces[@]}") # a process is root in the user namespace that it creates
    who="a user who is not root"
  fi
  said=$(unshare "${spaces[@]}" --mount-proc true 2>&1) || unable "$who may not make namespaces: $said"

  # setsid keeps Ctrl-C away from it, and it dies with this process. A program in the background of a shell
  # would have no input.
  exec {input}<&0
  exec "$(dirname "${BASH_SOURCE[0]}")/../../scripts/run_ranks.sh" bash -c 'exec "$@" <&'"$input" bash \
    setpriv --pdeathsig KILL unshare "${spaces[@]}" --mount-proc bash "${BASH_SOURCE[0]}" --inside "${arguments[@]}"
fi

# ---- Inside: this is head, and process 1 of everything that is visible here.

# must WHAT COMMAND…: runs a step that the hosts need; exits with 77 if it fails.
must() {
  local what=$1 said
  shift
  said=$("$@" 2>&1) || unable "$what: $said"
}
# on HOST COMMAND…; host 0 is head.
# shellcheck disable=SC2317,SC2329 # called by must
on() {
  nsenter --target "${process_of[$1]}" --mount --uts --ipc --net --pid "${@:2}"
}
subnet=10.123.0.0/24
files=/dev/shm # removed with the hosts; hosts see the machine's /tmp, but have a separate /dev/shm
must "no file system in memory" mount -t tmpfs tmpfs $files
must "no name of its own for a host" hostname head
must "no network" ip link set lo up
must "no bridge, the hosts' switch" ip link add switch type bridge
must "no address for head" ip addr add ${subnet%.*}.254/24 dev switch
must "no bridge, the hosts' switch" ip link set switch up

names="127.0.0.1 localhost"$'\n'"${subnet%.*}.254 head"
for ((i = 1; i <= hosts; ++i)); do names+=$'\n'"${subnet%.*}.$i host$i"; done
echo "$names" >$files/names
must "no host names" mount --bind $files/names /etc/hosts

# The size of the bucket is one millisecond of data. With a smaller one, a link is slower whenever the
# kernel is late, as it is while programs compute on all cores; a larger one does not limit short messages.
bucket=$(awk -v rate="$rate" 'BEGIN {
  if (!match(rate, /^[0-9.]+/)) exit
  bytes = substr(rate, 1, RLENGTH) * (rate ~ /bit$/ ? 1 / 8 : 1)
  power = index("kmgt", substr(rate, RLENGTH + 1, 1))
  bytes *= (rate ~ /.i(bit|bps)$/ && power ? 1024 : 1000) ^ power
  printf "%d", (bytes / 1000 > 16384 ? bytes / 1000 : 16384)
}')
# Limits the packets that leave HOST through DEVICE.
limit() { # HOST DEVICE
  [ -n "$rate" ] || return 0
  must "--rate is not available (tc's qdisc tbf)" on "$1" tc qdisc add dev "$2" root handle 1: tbf \
    rate "$rate" burst "$bucket" latency 50ms
}
process_of=([0]=1)
for ((i = 1; i <= hosts; ++i)); do
  # The first process of a host only reaps orphaned processes.
  unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc bash -c 'sleep infinity & wait' &
  own=$!
  for ((try = 0; try < 500; ++try)); do # the host is ready when unshare's child has become another program
    if process=$(pgrep -P $own) && [ "$(cat "/proc/$process/comm" 2>/dev/null)" != unshare ]; then break; fi
    process=
    kill -0 $own 2>/dev/null || break
    sleep 0.01
  done
  [ -n "$process" ] || unable "host$i did not start"
  process_of[i]=$process
  must "no file system in memory" on $i mount -t tmpfs tmpfs $files
  must "no name of its own for a host" on $i hostname host$i
  must "no link between hosts (veth)" ip link add port$i type veth peer name eth0 netns "$process"
  must "no link between hosts" ip link set port$i master switch up
  must "no network" on $i ip link set lo up
  must "no network" on $i ip addr add ${subnet%.*}.$i/24 dev eth0
  must "no network" on $i ip link set eth0 up
  limit 0 port$i
  limit $i eth0
  if [ -n "$delay$loss" ]; then # only outgoing: once between two hosts
    parent=(root)
    [ -z "$rate" ] || parent=(parent 1:1)
    netem=(limit 100000)
    [ -z "$delay" ] || netem+=(delay "$delay")
    [ -z "$loss" ] || netem+=(loss "$loss")
    must "--delay and --loss are not available (tc's qdisc netem)" \
      on $i tc qdisc add dev eth0 "${parent[@]}" handle 10: netem "${netem[@]}"
  fi
done

# The replacement for ssh: HOST WORD…, where the words are a shell command. Each host gets its cores.
mapfile -t cores < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{ for (c = $1; c <= $NF; ++c) print c }')
{
  cat <<'END'
#!/bin/sh
host=$1
shift
case $host in
END
  for ((i = 1; i <= hosts; ++i)); do
    own=()
    for ((c = (i - 1) * ${#cores[@]} / hosts; c < i * ${#cores[@]} / hosts; ++c)); do own+=("${cores[c]}"); done
    [ ${#cores[@]} -ge "$hosts" ] || own=("${cores[@]}")
    echo "host$i) process=${process_of[i]} cores=$(IFS=, && echo "${own[*]}") ;;"
  done
  cat <<'END'
*) echo "multihost.sh: unknown host $host" >&2; exit 1 ;;
esac
exec nsenter --target "$process" --mount --uts --ipc --net --pid taskset -c "$cores" \
  sh -c 'cd "$0" && eval "$*"' "$PWD" "$@"
END
} >$files/rsh
chmod +x $files/rsh
# Open MPI's daemons do not start without this file, though they do not use it.
for ((i = 1; i <= hosts; ++i)); do must "no file for host$i" on $i sh -c "cat >$files/rsh && chmod +x $files/rsh" <$files/rsh; done

list=
for ((i = 1; i <= hosts; ++i)); do list+=${list:+,}host$i:$ranks; done
only=(--mca pml ob1 --mca btl "tcp,self" --mca btl_tcp_if_include "$subnet")
if command -v prterun >/dev/null; then # Open MPI 5
  only+=(--prtemca oob_tcp_if_include "$subnet" --prtemca plm ssh --prtemca plm_ssh_agent "$files/rsh"
    --prtemca plm_ssh_no_tree_spawn 1 --prtemca prte_tmpdir_base "$files")
else
  only+=(--mca oob_tcp_if_include "$subnet" --mca plm rsh --mca plm_rsh_agent "$files/rsh" --mca plm_rsh_no_tree_spawn 1
    --mca orte_tmpdir_base "$files")
fi
# Waiting ranks must yield their core to others.
[ $((hosts * ranks)) -le ${#cores[@]} ] || only+=(--mca mpi_yield_when_idle 1)

[ "$asked" -eq 0 ] || exit 143
mpirun --allow-run-as-root "${only[@]}" --bind-to none --host "$list" -np $((hosts * ranks)) "${mpi[@]}" "$@" <&0 &
run=$!
declare -A told
status=127 alone=0
while kill -0 $run 2>/dev/null; do
  if [ "$asked" -eq 0 ]; then
    wait $run # until the run ends, or a signal arrives
    status=$?
  else
    ((++alone))
    for daemon in $(pgrep -x 'orted|prted'); do # its children are the ranks; each gets one signal, and more may still start
      for rank in $(pgrep -P "$daemon"); do
        [ "$(cat "/proc/$rank/comm" 2>/dev/null)" != prted ] || continue # prted starts itself again
        alone=0
        if [ -z "${told[$rank]:-}" ] && kill -TERM "$rank" 2>/dev/null; then told[$rank]=1; fi
      done
    done
    [ $alone -lt 50 ] || exit 143 # five seconds without a rank: mpirun waits for something else
    sleep 0.1
  fi
done
wait $run 2>/dev/null
last=$?
[ $last -eq 127 ] || status=$last # 127: the status was already read above
exit $status
