#!/usr/bin/env bash
# Measures the web page of a real mgpu-extender in Chromium: first paint, updates, scrolling, search and memory.
#
#   bench/web.sh [NODES [PODS]]    default: 5000 nodes with 8 cards, and 40000 pods
#
# The in-memory API server of bench/scale has the cluster, and shares the machine with the extender and the
# browser, which draws without a GPU. It prints the figures, and checks none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for number in "$@"; do
  [[ $number =~ ^[1-9][0-9]{0,5}$ ]] || {
    printf 'web.sh: "%s" is not a number from 1 to 999999\n' "$number" >&2
    exit 2
  }
done
MGPU_WEB_NODES=${1:-5000} MGPU_WEB_PODS=${2:-40000} exec bash test/run.sh web-scale
