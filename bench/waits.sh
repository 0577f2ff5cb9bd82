#!/usr/bin/env bash
# Measures how long ordinary pods wait for a node beside pending pods of a tenant with 17 different containers, for
# which each node takes a search, with a real etcd, kube-apiserver and kube-scheduler and 500 nodes.
#
#   bench/waits.sh                     100 and 200 pending pods, three pairs of measurements; takes some minutes
#   bench/waits.sh --pending 40 --pairs 1
#
# It prints the mean wait of 100 ordinary pods, one each 100 ms, in seconds, with nodes of equal and of different
# shapes. The last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail_usage() {
  printf 'waits.sh: %s\n' "$*" >&2
  exit 2
}

pending=100,200
pairs=3
while [[ $# -gt 0 ]]; do
  case $1 in
    --pending)
      [[ ${2-} =~ ^[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*$ ]] ||
        fail_usage "--pending: \"${2-}\" is not a list of numbers from 1 to 9999"
      pending=$2
      ;;
    --pairs)
      [[ ${2-} =~ ^[1-9][0-9]?$ ]] || fail_usage "--pairs: \"${2-}\" is not a number from 1 to 99"
      pairs=$2
      ;;
    *) fail_usage "\"$1\" is not a flag; want --pending or --pairs" ;;
  esac
  shift 2
done
MGPU_WAITS_PENDING=$pending MGPU_WAITS_PAIRS=$pairs exec bash test/run.sh throughput
