#!/usr/bin/env bash
# Builds mgpu and runs its main job on an embedded cluster: no Kubernetes, no GPU.
# Arguments go to `mgpu-sim demo`, such as --serve, --output json, --nodes FILE, --pods FILE.
# Progress goes to standard error, so that --output json is alone on standard output.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root

"$root/deploy/install.sh"
cd "$root"
# What one checkout has compiled serves the next, wherever it lies.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
cmake --preset release --log-level=WARNING >&2
cmake --build --preset release --target mgpu-sim >&2
cd - >/dev/null
exec "$root/build/release/bench/mgpu-sim" demo "$@"
