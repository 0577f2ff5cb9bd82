#!/usr/bin/env bash
# Tries the node code on the GPU of this machine: prints a table, and writes results.json and the logs
# into FOLDER/results. Needs an NVIDIA driver, root and nothing else; ends within 8 minutes. It leaves
# the settings of the card as they were, and no process behind.
#
#   bench/gpu/run.sh FOLDER [flags]     FOLDER is what bench/gpu/build.sh made
#   FOLDER/run.sh [flags]               the same
#   bench/gpu/run.sh FOLDER --help      the flags: which checks, which card, where the results go
#
# Exit codes: 0 all checks passed, 1 some did not, 2 wrong flags, 3 no GPU can be tried here.
set -euo pipefail

refuse() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 2
}

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ ! -x $folder/bin/mgpu-gpu-trial ]]; then
  [[ $# -gt 0 && $1 != -* ]] || refuse "no folder given; want the one that bench/gpu/build.sh made"
  folder=$1
  shift
fi
[[ -x $folder/bin/mgpu-gpu-trial ]] ||
  refuse "\"$folder\" has no bin/mgpu-gpu-trial; want the folder that bench/gpu/build.sh made"
[[ $EUID -eq 0 ]] || refuse "not root; MPS daemons and containers need it"


export PATH=$PATH:/usr/local/nvidia/bin
exec "$folder/bin/mgpu-gpu-trial" --folder "$folder" "$@"
