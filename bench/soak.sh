#!/usr/bin/env bash
# Runs mgpu-extender with a real etcd, kube-apiserver and kube-scheduler and 100 Node objects under load,
# while users edit pods and processes are killed. README.md lists what is checked.
#
#   bench/soak.sh                  30 minutes, with a new seed
#   bench/soak.sh --minutes 2      a short run
#   bench/soak.sh --seed N         the plan of an earlier run: kills, arrivals and edits. Answers have other
#                                  times, so a run is similar, but not equal
#   bench/soak.sh --extender PATH  another mgpu-extender than the release build
#
# It prints a line each minute. The last line is "N passed, N failed". The exit status is 0 if nothing failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. bench/flags.sh

minutes=30 seed=$(date +%s) extender=''
read_flags '
  minutes ^[1-9][0-9]{0,3}$ a number from 2 to 1440
  seed ^[0-9]{1,18}$ a number of up to 18 digits
  extender . a program' "$@"
[[ $minutes -ge 2 && $minutes -le 1440 ]] || fail_usage "--minutes: \"$minutes\" is not a number from 2 to 1440"
[[ -z $extender || (-f $extender && -x $extender) ]] || fail_usage "--extender: \"$extender\" is not a program"
MGPU_SOAK_MINUTES=$minutes MGPU_SOAK_SEED=$seed MGPU_SOAK_EXTENDER=${extender:+$(realpath "$extender")} exec bash test/run.sh soak
