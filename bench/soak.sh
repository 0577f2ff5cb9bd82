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

fail_usage() {
  printf 'soak.sh: %s\n' "$*" >&2
  exit 2
}

minutes=30
seed=$(date +%s)
while [[ $# -gt 0 ]]; do
  case $1 in
    --minutes)
      [[ ${2-} =~ ^[1-9][0-9]{0,3}$ && $2 -ge 2 && $2 -le 1440 ]] ||
        fail_usage "--minutes: \"${2-}\" is not a number from 2 to 1440"
      minutes=$2
      ;;
    --seed)
      [[ ${2-} =~ ^[0-9]{1,18}$ ]] || fail_usage "--seed: \"${2-}\" is not a number of up to 18 digits"
      seed=$2
      ;;
    --extender)
      [[ -x ${2-} && ! -d ${2-} ]] || fail_usage "--extender: \"${2-}\" is not a program"
      MGPU_SOAK_EXTENDER=$(realpath "$2")
      export MGPU_SOAK_EXTENDER
      ;;
    *) fail_usage "\"$1\" is not a flag; want --minutes, --seed or --extender" ;;
  esac
  shift 2
done
MGPU_SOAK_MINUTES=$minutes MGPU_SOAK_SEED=$seed exec bash test/run.sh soak
