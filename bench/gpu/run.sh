#!/usr/bin/env bash
# Tests the device plugin's code on the GPU of this machine. Prints a table, and writes results.json and
# the logs into FOLDER/results. Needs only root and an NVIDIA driver with nvidia-smi and
# nvidia-cuda-mps-control, and takes at most 9 minutes. It restores the settings of the card and ends all
# its processes. Use a card that no other program uses.
#
#   FOLDER/run.sh [flags]               FOLDER is the folder of bench/gpu/build.sh
#   bench/gpu/run.sh FOLDER [flags]     the same
#   FOLDER/run.sh --help                the flags: which checks, which card, where the results go
#
# Exit codes: 0 all checks passed, 1 some did not, 2 wrong flags, folder or user, 3 there is no GPU that
# can be tested, 130 interrupted.
set -euo pipefail

fail_usage() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 2
}

folder=$(CDPATH="" cd -- "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ ! -x $folder/bin/mgpu-gpu-trial ]]; then
  if [[ ${1-} == --help ]]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit 0
  fi
  [[ $# -gt 0 && $1 != -* ]] || fail_usage "no folder given; expected the one that bench/gpu/build.sh made"
  folder=$1
  shift
fi
[[ -x $folder/bin/mgpu-gpu-trial ]] ||
  fail_usage "\"$folder\" has no bin/mgpu-gpu-trial; expected the folder that bench/gpu/build.sh made"

libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown)
[[ $(printf 'glibc 2.36\n%s\n' "$libc" | sort -V | head -n 1) == "glibc 2.36" ]] ||
  fail_usage "the C library of this machine is $libc; expected glibc 2.36 or newer"

# GKE, and some machines that are containers, have the driver in this folder.
export PATH=$PATH:/usr/local/nvidia/bin
if [[ -d /usr/local/nvidia/lib64 ]]; then
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64
fi
exec "$folder/bin/mgpu-gpu-trial" --folder "$folder" "$@"
