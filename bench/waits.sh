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
. bench/flags.sh

pending=100,200 pairs=3
read_flags '
  pending ^[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*$ a list of numbers from 1 to 9999
  pairs ^[1-9][0-9]?$ a number from 1 to 99' "$@"
MGPU_WAITS_PENDING=$pending MGPU_WAITS_PAIRS=$pairs exec bash test/run.sh throughput
