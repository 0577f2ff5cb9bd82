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
. bench/flags.sh

pending=4000,50000
read_flags 'pending ^[1-9][0-9]{0,4}(,[1-9][0-9]{0,4})*$ a list of numbers from 1 to 99999' "$@"
MGPU_START_PENDING=$pending exec bash test/run.sh throughput
