#!/usr/bin/env bash
# Measures how long mgpu-extender takes to start beside pending pods, with and without schedulingGates, with a real etcd
# and kube-apiserver.
#
#   bench/start.sh                        4,000 and 50,000 pending pods, three starts of each; takes half an hour
#   bench/start.sh --pending 1000
#
# It prints the time until each start decides. The last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail_usage() {
  printf 'start.sh: %s\n' "$*" >&2
  exit 2
}

pending=4000,50000
while [[ $# -gt 0 ]]; do
  case $1 in
    --pending)
      [[ ${2-} =~ ^[1-9][0-9]{0,4}(,[1-9][0-9]{0,4})*$ ]] ||
        fail_usage "--pending: \"${2-}\" is not a list of numbers from 1 to 99999"
      pending=$2
      ;;
    *) fail_usage "\"$1\" is not a flag; want --pending" ;;
  esac
  shift 2
done
MGPU_START_PENDING=$pending exec bash test/run.sh throughput
