#!/usr/bin/env bash
# Tries the node code on the GPU of this machine: prints a table, and writes results.json and the logs
# into FOLDER/results. Needs root, an NVIDIA driver with nvidia-smi and nvidia-cuda-mps-control, and
# nothing else; ends within 8 minutes. It leaves the settings of the card as they were, and no process
# behind. Use a card that no other program uses.
#
#   FOLDER/run.sh [flags]               FOLDER is what bench/gpu/build.sh made
#   bench/gpu/run.sh FOLDER [flags]     the same
#   FOLDER/run.sh --help                the flags: which checks, which card, where the results go
#
# Exit codes: 0 all checks passed, 1 some did not, 2 wrong flags, folder or user, 3 no GPU can be tried
# here, 130 interrupted.
set -euo pipefail

refuse() {
  printf 'run.sh: %s\n' "$*" >&2
  exit 2
}

folder=$(CDPATH="" cd -- "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ ! -x $folder/bin/mgpu-gpu-trial ]]; then
  if [[ ${1-} == --help ]]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit 0
  fi
  [[ $# -gt 0 && $1 != -* ]] || refuse "no folder given; want the one that bench/gpu/build.sh made"
  folder=$1
  shift
fi
[[ -x $folder/bin/mgpu-gpu-trial ]] ||
  refuse "\"$folder\" has no bin/mgpu-gpu-trial; want the folder that bench/gpu/build.sh made"

libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown)
[[ $(printf 'glibc 2.36\n%s\n' "$libc" | sort -V | head -n 1) == "glibc 2.36" ]] ||
  refuse "the C library of this machine is $libc; want glibc 2.36 or newer"

# The driver is here on GKE and on some machines that are themselves containers.
export PATH=$PATH:/usr/local/nvidia/bin
if [[ -d /usr/local/nvidia/lib64 ]]; then
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64
fi
exec "$folder/bin/mgpu-gpu-trial" --folder "$folder" "$@"
