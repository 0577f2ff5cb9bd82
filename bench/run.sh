#!/usr/bin/env bash
# Measures the placements of all policies and the parts of a request to the extender, and draws plots.
#
#   bench/run.sh --traces DIR    measures everything; DIR is the folder of the openb traces (bench/PLACEMENT.md)
#
# Flags:
#   --out DIR         folder for results and plots; default build/bench-results. Results of the same
#                     program are used again
#   --seeds A-B       default 42-51
#   --policies NAMES  separated by commas; default all
#   --trace NAMES     separated by commas; default all traces of the folder
#   --jobs N          number of seeds in parallel; default one for each processor. The time per decision
#                     is measured separately, with one job
#   --only PART       placement, parts or draw; default all three
#   --publish         writes the tables into the pages of bench/ and the plots into bench/plots/
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly all_policies=random,dotprod,clustering,packing,bestfit,fgd,binpack,spread,equilibrium
readonly default_policy=equilibrium
# Offered loads of the runs in which pods terminate, in percent of all cards.
readonly loads=(100 110)
readonly node_file=openb_node_list_gpu_node.csv
readonly sim=build/release/bench/mgpu-sim
readonly parts=build/release/bench/mgpu-parts
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 PYTHONDONTWRITEBYTECODE=1

traces=
out=build/bench-results
seeds=42-51
policies=$all_policies
trace=
jobs=$(nproc)
only=
publish=

say() { printf '[%4ds] %s\n' "$SECONDS" "$*" >&2; }

fail_usage() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 2
}

# --- flags ----------------------------------------------------------------------------------------

read_flags() {
  while [[ $# -gt 0 ]]; do
    case $1 in
      --publish) publish=yes ;;
      --traces | --out | --seeds | --policies | --trace | --jobs | --only)
        [[ $# -ge 2 && -n $2 ]] || fail_usage "$1 needs a value; expected $1 VALUE"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
      *) fail_usage "unknown argument \"$1\"; expected --traces DIR and the flags at the top of this file" ;;
    esac
    shift
  done
}

check_flags() {
  [[ -n $traces ]] || fail_usage "expected --traces DIR"
  [[ $jobs =~ ^[1-9][0-9]{0,2}$ ]] || fail_usage "--jobs is \"$jobs\"; expected 1 to 999"
  [[ $only =~ ^(placement|parts|draw|)$ ]] ||
    fail_usage "--only is \"$only\"; expected placement, parts or draw"
  [[ $seeds =~ ^[0-9]{1,9}(-[0-9]{1,9})?$ ]] || fail_usage "--seeds is \"$seeds\"; expected A-B, such as 42-51"
  check_names --policies "$policies" "$all_policies"
  check_traces
}

check_names() { # flag, names, known names; both separated by commas
  local name
  for name in ${2//,/ }; do
    [[ ,$3, == *",$name,"* ]] || fail_usage "$1: \"$name\" is unknown; expected ${3//,/, }"
  done
}

check_traces() {
  [[ -d $traces ]] || fail_usage "--traces: \"$traces\" is not a folder"
  [[ -f $traces/$node_file ]] || fail_usage "--traces: \"$traces\" contains no $node_file"
  local known
  known=$(traces_of_folder | paste -s -d ,)
  [[ -n $known ]] || fail_usage "--traces: \"$traces\" contains no openb_pod_list_*.csv"
  trace=${trace:-$known}
  check_names --trace "$trace" "$known"
}

# Prints the traces of the folder. All policies and conditions are measured on the first one.
traces_of_folder() {
  local name file
  [[ ! -f $traces/openb_pod_list_default.csv ]] || echo default
  for file in "$traces"/openb_pod_list_*.csv; do
    name=${file##*/openb_pod_list_}
    [[ ! -f $file || $name == default.csv ]] || echo "${name%.csv}"
  done
}

# --- measuring ------------------------------------------------------------------------------------

build() {
  say "build"
  bash deploy/install.sh >&2 &&
    cmake --preset release --log-level=WARNING >&2 &&
    nice ninja -C build/release mgpu-sim mgpu-parts >&2
}

# Writes the output of a program to a file, unless the file already has the output of the same program
# with the same arguments.
measure() { # file, program, arguments
  local file=$1 key
  shift
  key="$(sha256sum <"$1" | cut -c 1-64) ${*:2}"
  if [[ -s $file && -f $file.of && $(<"$file.of") == "$key" ]]; then
    return 0
  fi
  mkdir -p "$(dirname "$file")"
  rm -f "$file.of"
  say "$file"
  "$@" >"$file.new" || return 1
  mv "$file.new" "$file"
  printf '%s\n' "$key" >"$file.of"
}

place() { # folder, trace, policy, more arguments
  measure "$out/$1/$2.$3.json" "$sim" trace --traces "$traces" --trace "$2" --policy "$3" \
    --seeds "$seeds" --jobs "$jobs" --output json "${@:4}"
}

# As in the published runs: all nodes are examined, and the policy ranks them for all pods.
place_as_published() { # folder, trace, policy, more arguments
  place "$1" "$2" "$3" --sampling all --non-gpu extender "${@:4}"
}

# Runs one seed alone, to measure the time per decision.
time_one() { # trace, policy
  measure "$out/timing/$1.$2.json" "$sim" trace --traces "$traces" --trace "$1" --policy "$2" \
    --seeds "${seeds%%[-,]*}" --jobs 1 --output json
}

measure_placement() {
  local one name load
  for one in ${trace//,/ }; do
    for name in ${policies//,/ }; do
      place_as_published placement "$one" "$name"
    done
    place shipped "$one" "$default_policy"
  done
  for name in ${policies//,/ }; do
    place_as_published random-ties "${trace%%,*}" "$name" --ties random
    place_as_published card-memory "${trace%%,*}" "$name" --memory reference
    place non-gpu-by-defaults "${trace%%,*}" "$name" --sampling all --non-gpu defaults
    for load in "${loads[@]}"; do
      place_as_published "departures-$load" "${trace%%,*}" "$name" --departures "$load"
    done
    time_one "${trace%%,*}" "$name"
  done
}

measure_parts() {
  measure "$out/parts.json" "$parts" --benchmark_format=json
}

# --- drawing --------------------------------------------------------------------------------------

describe_machine() {
  {
    echo "processor: $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
    echo "threads: $(nproc)"
    echo "memory: $(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)"
    echo "kernel: $(uname -sr)"
    echo "compiler: $(c++ --version | head -n 1)"
    echo "commit: $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
  } >"$out/machine.txt"
}

draw() {
  local library page where=${publish:+bench}
  where=${where:-$out}
  library=$(bash deploy/install.sh plot)
  say "draw: $where"
  PYTHONPATH=$library python3 bench/plot/draw.py --results "$out" --out "$where/plots"
  for page in README PLACEMENT; do
    python3 bench/plot/tables.py --results "$out" --template "bench/$page.md" --page "$where/$page.md"
  done
}

everything() {
  mkdir -p "$out"
  if [[ $only != draw ]]; then
    build
    describe_machine
  fi
  [[ $only =~ ^(parts|draw)$ ]] || measure_placement
  [[ $only =~ ^(placement|draw)$ ]] || measure_parts
  [[ $only =~ ^(placement|parts)$ ]] || draw
}

main() {
  read_flags "$@"
  check_flags
  everything
}

main "$@"
