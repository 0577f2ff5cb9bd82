#!/usr/bin/env bash
# What mgpu-device-plugin costs on a real kubelet, containerd and runc: containers that start with each
# settle time, alone and 60 at once, and 200 containers that run. Needs root; some 15 minutes.
#
#   bench/node.sh            everything
#   bench/node.sh NodeIdle   what matches
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
MGPU_BENCH=${1:-Node} exec bash test/run.sh bench
