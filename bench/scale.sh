#!/usr/bin/env bash
# Measures the start time and memory of a real mgpu-extender for several cluster sizes.
#
#   bench/scale.sh [NODES:PODS...]    default: 1000:8000 5000:40000. Needs the release build of
#                                     mgpu-extender and mgpu-scale-server
#
# For each size an in-memory API server is filled and served over HTTP on loopback. Then:
#   reference   curl lists the same nodes and pods in the same pages, and discards them
#   extender    mgpu-extender starts; the time until /readyz returns 200 and its memory are measured
# The reference transfers the same bytes, so the ratio shows what the extender adds to the transfer.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/build/release
sizes=${*:-"1000:8000 5000:40000"}
work=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

now_ms() { date +%s%3N; }

list_all() {  # base-url path
  local next="" page
  while :; do
    curl -sS --compressed -o "$work/page" "$1$2limit=500${next:+&continue=$next}"
    page=$(head -c 400 "$work/page")
    next=$(sed -n 's/.*"continue":"\([^"]*\)".*/\1/p' <<<"$page" | head -n 1)
    [ -n "$next" ] || break
  done
}

measure() {  # nodes pods
  mkfifo "$work/port"
  "$bin/bench/mgpu-scale-server" --nodes "$1" --pods "$2" >"$work/port" &
  local server=$! port start listed ready extender url config=$work/config
  pids+=("$server")
  read -r port <"$work/port"
  url=http://127.0.0.1:$port
  start=$(now_ms)
  list_all "$url" '/api/v1/nodes?'
  list_all "$url" '/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed&'
  listed=$(($(now_ms) - start))
  cat >"$config" <<CONFIG
{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
 clusters: [{name: a, cluster: {server: "$url"}}], users: [{name: a, user: {}}]}
CONFIG
  start=$(now_ms)
  "$bin/extender/mgpu-extender" --kubeconfig "$config" --port 39800 \
    --metrics-bind-address 127.0.0.1:39802 --log-level warn &
  extender=$!
  pids+=("$extender")
  until curl -sf -o /dev/null http://127.0.0.1:39802/readyz; do
    kill -0 "$extender" 2>/dev/null || { echo "scale.sh: mgpu-extender has ended" >&2 && exit 1; }
    sleep 0.01
  done
  ready=$(($(now_ms) - start))
  sleep 1
  printf '%7s %8s %12s %12s %8s %14s %14s\n' "$1" "$2" "$listed" "$ready" \
    "$(awk -v a="$ready" -v b="$listed" 'BEGIN { printf "%.2f", a / (b > 0 ? b : 1) }')" \
    "$(awk '/VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$extender/status")" \
    "$(awk '/VmHWM/ { printf "%.1f", $2 / 1024 }' "/proc/$extender/status")"
  kill "$extender" "$server"
  wait "$extender" "$server" 2>/dev/null || true
  pids=()
  rm -f "$work/port"
}

printf '%7s %8s %12s %12s %8s %14s %14s\n' nodes pods 'list ms' 'ready ms' ratio 'RSS MiB' 'peak MiB'
for size in $sizes; do measure "${size%%:*}" "${size##*:}"; done
