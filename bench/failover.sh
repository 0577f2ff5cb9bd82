#!/usr/bin/env bash
# Measures how long no pod is bound when the leader of two mgpu-extender ends or is lost, and in which
# parts, with a real etcd, kube-apiserver and kube-scheduler and the default settings of the election.
#
#   bench/failover.sh              five runs of each; takes some minutes
#   bench/failover.sh --runs 20
#   bench/failover.sh --kube-proxy    two replicas of the chart, which kube-scheduler reaches through kube-proxy; needs
#                                     root
#
# It prints the least, the median and the greatest time of each part in seconds. The last line is
# "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. bench/flags.sh

runs=5 kube_proxy=''
read_flags '
  runs ^[1-9][0-9]{0,2}$ a number from 1 to 999
  kube-proxy -' "$@"
MGPU_FAILOVER_RUNS=$runs exec bash test/run.sh "failover${kube_proxy:+-service}"
