#!/usr/bin/env bash
# Measures training steps of ranks on different hosts with a slow network between them: how much
# overlap, compression and averaging save there.
#
#   bench/slow_link.sh [--hosts N] [--rate RATE] [--delay TIME] [--models LIST] [--batch N] [--steps N]
#                      [--rounds N] [--settings LIST] [--json FILE]
#   bench/slow_link.sh --rate 100mbit --models mlp --rounds 5
#
#   --hosts N         one rank each, 2 to 4 (2)
#   --rate, --delay   of the links (1gbit, none): see extras/cluster/multihost.sh, which simulates the hosts
#   --models LIST     mlp, resnet20, resnet18, … (mlp,resnet18); mlp trains on Fashion-MNIST, the others on
#                     CIFAR-10; the data are found as the examples find them
#   --batch N         images in a step, all ranks together (128)
#   --steps N         steps in an epoch that is timed; a multiple of 16 (16, for the mlp 160)
#   --rounds N        number of measurements of each setting, in turns (3)
#   --settings LIST   ddp,late,bf16,topk,powersgd,average: --no-overlap, --compress bf16, topk:0.01 and
#                     powersgd:4, and --sync average --average-every 16 (all)
#   --json FILE       everything that was measured
#
# Each run is the example (fashion_mlp, cifar_resnet) with two short epochs, of which the second counts. The
# time of a step is the epoch's time divided by its steps, and includes loading of data. The time of an epoch
# in the table is extrapolated to the whole data set.
#
# The bound is the time of the link for the bytes that a rank must send in a step: 2 (n - 1) / n of the
# gradients for a ring, or what the comm hook counts for compressed gradients (bench/ddp_step.cpp). ddp
# overlaps its messages with backward, so at best a step takes the larger of computing time and bound.
# "free" is ddp over links without a limit, for comparison.
#
# Needs build/bin (or $RONDO_BIN) with ddp_step, fashion_mlp and cifar_resnet. Exit status 77 if this
# machine cannot simulate hosts.
set -euo pipefail
# shellcheck source=scripts/help.sh
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/help.sh"
trap 'exit 130' INT
trap 'exit 143' TERM

hosts=2 rate=1gbit delay=0 models=mlp,resnet18 batch=128 steps='' rounds=3 json=''
settings=ddp,late,bf16,topk,powersgd,average
while [ $# -gt 0 ]; do
  case $1 in
  --hosts | --rate | --delay | --models | --batch | --steps | --rounds | --settings | --json)
    [ $# -ge 2 ] || { echo "slow_link.sh: $1 needs a value" >&2 && exit 2; }
    declare "${1#--}=$2"
    shift 2
    ;;
  *)
    echo "slow_link.sh: unknown option $1; --help lists the options" >&2
    exit 2
    ;;
  esac
done
for number in "$hosts" "$batch" "$rounds" "${steps:-16}"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || { echo "slow_link.sh: '$number' is not a whole number above 0" >&2 && exit 2; }
done
[ $((${steps:-16} % 16)) -eq 0 ] || { echo "slow_link.sh: --steps $steps is not a multiple of 16" >&2 && exit 2; }

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${RONDO_BIN:-$repository/build/bin}
for program in ddp_step fashion_mlp cifar_resnet; do
  [ -x "$bin/$program" ] || {
    echo "slow_link.sh: $bin/$program is missing: cmake --preset release && cmake --build --preset release" >&2
    exit 1
  }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# field NAME FILE: a number of a JSON object, whether on one line or many.
field() { tr ',{}' '\n' <"$2" | sed -n 's/^ *"'"$1"'": *\([-+.0-9e]*\)$/\1/p'; }
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
# on_hosts LIMITED COMMAND…: runs the command on the simulated hosts, and shows its output only if it fails.
on_hosts() {
  local limits=() status=0
  [ "$1" = no ] || limits=(--rate "$rate" --delay "$delay")
  "$repository/extras/cluster/multihost.sh" --hosts "$hosts" "${limits[@]}" -- "${@:2}" >"$work/log" 2>&1 </dev/null || status=$?
  [ $status -eq 0 ] || { cat "$work/log" >&2 && exit $status; }
}
flags_of() {
  case $1 in
  free | ddp) ;;
  late) echo --no-overlap ;;
  bf16) echo --compress bf16 ;;
  topk) echo --compress topk:0.01 ;;
  powersgd) echo --compress powersgd:4 ;;
  average) echo --sync average --average-every 16 ;;
  *)
    echo "slow_link.sh: unknown setting $1; the settings are ddp, late, bf16, topk, powersgd, average" >&2
    return 2
    ;;
  esac
}
# Sets a model's program, and the images and steps of an epoch.
look_up() { # MODEL
  program=("$bin/cifar_resnet" --model "$1") images=50000 count=${steps:-16}
  [ "$1" != mlp ] || program=("$bin/fashion_mlp") images=60000 count=${steps:-160}
}
# measure MODEL SETTING: prints the milliseconds per step.
measure() {
  local words limited=yes
  read -ra words <<<"$(flags_of "$2")"
  [ "$2" != free ] || limited=no
  rm -rf "$work/run"
  on_hosts $limited "${program[@]}" --epochs 2 --limit $((count * batch)) --batch "$batch" --threads 1 --lr 0.01 \
    --checkpoint-dir "$work/run" "${words[@]}"
  tail -n 1 "$work/run/metrics.jsonl" >"$work/last"
  awk -v s="$(field seconds "$work/last")" -v n="$count" 'BEGIN { print s / n * 1e3 }'
}
# bytes_of MODEL SETTING: prints the least number of bytes that a rank sends in a step.
bytes_of() {
  local hook=() all
  case $2 in
  free | ddp | late | average)
    # Uncompressed gradients are twice the bytes that the bf16 hook counts.
    hook=(--compress bf16)
    ;;
  *) read -ra hook <<<"$(flags_of "$2")" ;;
  esac
  # The bytes do not depend on the batch, so the smallest one will do. The network does not matter: bytes are only counted.
  on_hosts no "$bin/ddp_step" --model "$1" --batch "$hosts" --threads 1 --seconds 0.001 "${hook[@]}" --json "$work/step.json"
  all=$(field hook_bytes "$work/step.json")
  case $2 in
  free | ddp | late) echo $((2 * all)) ;;
  average) echo $((2 * all / 16)) ;;
  *) echo "$all" ;;
  esac
}

IFS=, read -ra model_list <<<"$models"
IFS=, read -ra setting_list <<<"free,$settings"
for setting in "${setting_list[@]}"; do flags_of "$setting" >"$work/log"; done
# The rate in bytes a second, as tc reads it.
per_second=$(awk -v rate="${rate,,}" 'BEGIN {
  if (!match(rate, /^[0-9.]+/)) exit
  power = index("kmgt", substr(rate, RLENGTH + 1, 1))
  printf "%.0f", substr(rate, 1, RLENGTH) * (rate ~ /.i(bit|bps)$/ && power ? 1024 : 1000) ^ power * (rate ~ /bit$/ ? 1 / 8 : 1)
}')
[ "${per_second:-0}" -gt 0 ] || { echo "slow_link.sh: --rate $rate is not a rate, such as 1gbit" >&2 && exit 2; }

declare -A bytes times
for model in "${model_list[@]}"; do
  look_up "$model"
  for setting in "${setting_list[@]}"; do bytes[$model,$setting]=$(bytes_of "$model" "$setting"); done
done
for ((round = 1; round <= rounds; ++round)); do
  for model in "${model_list[@]}"; do
    look_up "$model"
    for setting in "${setting_list[@]}"; do
      ms=$(measure "$model" "$setting")
      times[$model,$setting]+="$ms "
      echo "round $round: $model, $setting: $ms ms (load $(cut -d ' ' -f 1 /proc/loadavg))" >&2
    done
  done
done

echo "$hosts hosts with one rank of one thread each, links of $rate, delay $delay; batch $batch over all ranks, medians of $rounds rounds"
echo
echo "| model | flags | ms a step | bound of the link | over the bound | epoch, s | speed relative to ddp (in turns) |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
rows=()
for model in "${model_list[@]}"; do
  look_up "$model"
  for setting in "${setting_list[@]}"; do
    read -ra mine <<<"${times[$model,$setting]}"
    read -ra base <<<"${times[$model,ddp]:-${times[$model,$setting]}}"
    ms=$(printf '%s\n' "${mine[@]}" | median)
    ratio=$(for ((i = 0; i < rounds; ++i)); do awk -v a="${base[i]}" -v b="${mine[i]}" 'BEGIN { print a / b }'; done | median)
    flags=$(flags_of "$setting")
    name="${flags:+\`$flags\`}"
    [ "$setting" != ddp ] || name="\`--sync ddp\`"
    [ "$setting" != free ] || name="\`--sync ddp\`, no limit"
    awk -v model="$model" -v name="$name" -v ms="$ms" -v bytes="${bytes[$model,$setting]}" -v rate="$per_second" \
      -v steps="$((images / batch))" -v ratio="$ratio" -v free="$([ "$setting" = free ] && echo 1)" 'BEGIN {
        bound = free ? "" : sprintf("%.2f ms (%.3g MB)", bytes / rate * 1e3, bytes / 1e6)
        over = free ? "" : sprintf("%.1f×", ms / (bytes / rate * 1e3))
        printf "| %s | %s | %.4g | %s | %s | %.3g | %.2f× |\n", model, name, ms, bound, over, ms * steps / 1e3, ratio
      }'
    list=$(IFS=, && echo "${mine[*]}")
    bound=$(awk -v bytes="${bytes[$model,$setting]}" -v rate="$per_second" 'BEGIN { print bytes / rate * 1e3 }')
    [ "$setting" != free ] || bound=0
    rows+=("{\"model\": \"$model\", \"setting\": \"$setting\", \"flags\": \"$flags\", \"ms_per_step\": $ms, \"rounds\": [$list], \"bytes\": ${bytes[$model,$setting]}, \"bound_ms\": $bound, \"over_ddp\": $ratio}")
  done
done
if [ -n "$json" ]; then
  {
    echo "{\"hosts\": $hosts, \"rate\": \"$rate\", \"delay\": \"$delay\", \"batch\": $batch, \"rows\": ["
    for ((i = 0; i < ${#rows[@]}; ++i)); do
      echo "${rows[i]}$([ $((i + 1)) -eq ${#rows[@]} ] || echo ,)"
    done
    echo "]}"
  } >"$json"
fi
