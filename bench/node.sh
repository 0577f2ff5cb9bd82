#!/usr/bin/env bash
# Measures mgpu-device-plugin with a real kubelet, containerd and runc: starts of containers with each
# settle time, sequentially and 60 at once, and 200 running containers. Needs root; takes about 15
# minutes.
#
#   bench/node.sh            runs all benchmarks
#   bench/node.sh NodeIdle   runs the benchmarks with matching names
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
MGPU_BENCH=${1:-Node} exec bash test/run.sh bench
