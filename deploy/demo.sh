#!/usr/bin/env bash
# Builds mgpu and schedules pods in an embedded cluster, without Kubernetes and GPUs.
# Arguments are passed to `mgpu-sim demo`: --serve, --output json, --nodes FILE, --pods FILE
# and others; see --help.
# Progress is printed to standard error, so that standard output has only the result.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root

"$root/deploy/install.sh"
cd "$root"
# Other checkouts can use the results of this compilation.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
cmake --preset release --log-level=WARNING >&2
targets=(mgpu-sim)
# What the demo says to try in another terminal.
[[ " $* " != *" --serve "* ]] || targets+=(kubectl-mgpu)
cmake --build --preset release --target "${targets[@]}" >&2
cd - >/dev/null
exec "$root/build/release/bench/mgpu-sim" demo "$@"
