#!/usr/bin/env bash
# Runs a program with mpirun on several hosts that this machine plays: to test and to measure, on one
# machine, what happens between machines.
#
#   extras/cluster/multihost.sh [options] -- PROGRAM [ARGUMENT…]
#
#   --hosts N             2 to 4 hosts, host1 to hostN (2)
#   --ranks-per-host N    ranks on each of them (1)
#   --rate RATE           of each host's link, in each direction, as tc writes it: 1gbit, 200mbit
#                         (default: as fast as this machine copies)
#   --delay TIME          that a packet needs from one host to another: 100us, 5ms (0)
#   --loss PERCENT        of the packets that are lost on their way: 0.1 (0)
#   --mpi "WORDS"         further arguments for mpirun: "-x NAME", "--tag-output"
#
#   extras/cluster/multihost.sh --rate 1gbit -- build/bin/cifar_resnet --epochs 1
#
# A host has a network, a name, processes and shared memory of its own (namespaces of Linux), so that
# ranks on two hosts neither see each other's processes nor share memory: messages are their only way.
# It has the files of this machine. Links (veth) lead from the hosts to a switch (a bridge), which is
# on one more host, head, where mpirun runs; it reaches the others through nsenter where it would else
# use ssh. Where this machine has at least as many cores as there are hosts, they are divided among
# them. Nothing of this is visible outside or has a name there, so runs do not disturb each other, and
# the kernel removes all of it when the first process in it ends, even if that is killed.
#
# SIGINT, SIGTERM and SIGHUP stop the run as scripts/run_ranks.sh does: the ranks get SIGTERM and end
# when they next meet; a second signal ends everything at once.
#
# Needs Open MPI, iproute2, and root or namespaces for everybody.
#
# Exit status: that of the run; 128 + signal where it ended because it was asked to; 2 for wrong
# arguments; 77 where this machine cannot do it, with the reason.
set -u # but not -e: a trap has to do all of its work

usage() {
  echo "multihost.sh: $1; multihost.sh --help tells more" >&2
  exit 2
}
unable() {
  echo "multihost.sh: not possible on this machine: $1" >&2
  exit 77
}

inside=0
if [ "${1:-}" = --inside ]; then # this script starts itself once more, as head
  inside=1
  shift
  asked=0
  trap 'asked=1' TERM # at once: until there is a trap, process 1 does not hear it
fi
arguments=("$@")

hosts=2 ranks=1 rate='' delay='' loss='' mpi=()
number() { # OPTION VALUE LEAST MOST
  [[ $2 =~ ^[1-9][0-9]{0,3}$ ]] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] && return
  usage "$1 $2 is no number from $3 to $4"
}
while [ $# -gt 0 ]; do
  option=$1
  case $option in
  --help | -h)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
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
  -*) usage "there is no option $option" ;;
  *) break ;;
  esac
  case $option in
  --hosts) number --hosts "$value" 2 4 && hosts=$value ;;
  --ranks-per-host) number --ranks-per-host "$value" 1 64 && ranks=$value ;;
  --rate)
    value=${value,,}
    [[ $value =~ ^[0-9]+(\.[0-9]+)?([kmgt]i?)?(bit|bps)$ && $value =~ [1-9] ]] || usage "--rate $value is no rate, like 1gbit"
    rate=$value
    ;;
  --delay)
    [[ $value =~ ^([0-9]+(\.[0-9]+)?(us|ms|s)|0)$ ]] || usage "--delay $value is no time, like 100us"
    delay=$value
    [[ $value =~ [1-9] ]] || delay=
    ;;
  --loss)
    [[ $value =~ ^[0-9]{1,2}(\.[0-9]+)?%?$ ]] || usage "--loss $value is no percentage, like 0.1"
    loss=${value%\%}%
    [[ $value =~ [1-9] ]] || loss=
    ;;
  --mpi) read -ra mpi <<<"$value" ;;
  esac
done
[ $# -gt 0 ] || usage "no program is given"

# ---- Outside: start head; run_ranks.sh passes signals on to it and tells how it ended.
if [ $inside -eq 0 ]; then
  command -v mpirun >/dev/null || unable "there is no mpirun (package openmpi-bin)"
  [[ $(mpirun --version 2>&1) == *"Open MPI"* ]] || unable "mpirun is not Open MPI's, whose flags are used here"
  for tool in ip tc; do command -v $tool >/dev/null || unable "there is no $tool (package iproute2)"; done

  spaces=(--net --uts --ipc --mount --pid --fork --kill-child)
  who=root
  if [ "$(id -u)" -ne 0 ]; then
    spaces=(--user --map-root-user "${spaces[@]}") # whoever makes a user namespace is root in it
    who="a user who is not root"
  fi
  said=$(unshare "${spaces[@]}" --mount-proc true 2>&1) || unable "$who may not make namespaces: $said"

  # In a session of its own, where Ctrl-C does not reach it; it dies with this process. A program in the
  # background of a shell would have no input.
  exec {input}<&0
  exec "$(dirname "${BASH_SOURCE[0]}")/../../scripts/run_ranks.sh" bash -c 'exec "$@" <&'"$input" bash \
    setpriv --pdeathsig KILL unshare "${spaces[@]}" --mount-proc bash "${BASH_SOURCE[0]}" --inside "${arguments[@]}"
fi

# ---- Inside: this is head, and process 1 of all that can be seen from here.

# must WHAT COMMAND…: a step without which there are no hosts.
must() {
  local what=$1 said
  shift
  said=$("$@" 2>&1) || unable "$what: $said"
}
# on HOST COMMAND…; host 0 is head
# shellcheck disable=SC2317,SC2329 # called by must
on() {
  nsenter --target "${process_of[$1]}" --mount --uts --ipc --net --pid "${@:2}"
}
subnet=10.123.0.0/24
files=/dev/shm # gone with the hosts; programs on them see what is in the machine's /tmp, but not this
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

# A bucket of a millisecond's bytes: with a smaller one a link loses its rate whenever the kernel comes
# late, as it does where programs compute on all cores; a larger one lets short messages through for nothing.
bucket=$(awk -v rate="$rate" 'BEGIN {
  if (!match(rate, /^[0-9.]+/)) exit
  bytes = substr(rate, 1, RLENGTH) * (rate ~ /bit$/ ? 1 / 8 : 1)
  power = index("kmgt", substr(rate, RLENGTH + 1, 1))
  bytes *= (rate ~ /.i(bit|bps)$/ && power ? 1024 : 1000) ^ power
  printf "%d", (bytes / 1000 > 16384 ? bytes / 1000 : 16384)
}')
# What leaves HOST through DEVICE is limited.
limit() { # HOST DEVICE
  [ -n "$rate" ] || return 0
  must "--rate is not available (tc's qdisc tbf)" on "$1" tc qdisc add dev "$2" root handle 1: tbf \
    rate "$rate" burst "$bucket" latency 50ms
}
process_of=([0]=1)
for ((i = 1; i <= hosts; ++i)); do
  # A host's first process does nothing but bury those that have lost their parents.
  unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc bash -c 'sleep infinity & wait' &
  own=$!
  for ((try = 0; try < 500; ++try)); do # it is a host when unshare's child has become something else
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
  if [ -n "$delay$loss" ]; then # on the way out only: once between two hosts
    parent=(root)
    [ -z "$rate" ] || parent=(parent 1:1)
    netem=(limit 100000)
    [ -z "$delay" ] || netem+=(delay "$delay")
    [ -z "$loss" ] || netem+=(loss "$loss")
    must "--delay and --loss are not available (tc's qdisc netem)" \
      on $i tc qdisc add dev eth0 "${parent[@]}" handle 10: netem "${netem[@]}"
  fi
done

# In the place of ssh: HOST WORD…, where the words are a command for the shell. Each host gets its cores.
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
*) echo "multihost.sh: there is no host $host" >&2; exit 1 ;;
esac
exec nsenter --target "$process" --mount --uts --ipc --net --pid taskset -c "$cores" \
  sh -c 'cd "$0" && eval "$*"' "$PWD" "$@"
END
} >$files/rsh
chmod +x $files/rsh
# Open MPI's daemons do not start without it, though they do not use it.
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
# Ranks that wait must let others have their core.
[ $((hosts * ranks)) -le ${#cores[@]} ] || only+=(--mca mpi_yield_when_idle 1)

[ "$asked" -eq 0 ] || exit 143
mpirun --allow-run-as-root "${only[@]}" --bind-to none --host "$list" -np $((hosts * ranks)) "${mpi[@]}" "$@" <&0 &
run=$!
declare -A told
status=127 alone=0
while kill -0 $run 2>/dev/null; do
  if [ "$asked" -eq 0 ]; then
    wait $run # until the run ends, or a signal comes
    status=$?
  else
    ((++alone))
    for daemon in $(pgrep -x 'orted|prted'); do # its children are the ranks; each is told once, some are still to come
      for rank in $(pgrep -P "$daemon"); do
        [ "$(cat "/proc/$rank/comm" 2>/dev/null)" != prted ] || continue # which starts itself once more
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
[ $last -eq 127 ] || status=$last # 127: it was told above
exit $status
