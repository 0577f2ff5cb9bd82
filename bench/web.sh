#!/usr/bin/env bash
# Measures a start of mgpu-extender with a large cluster, and its web page in Chromium: first paint, updates, scrolling,
# search and memory.
#
#   bench/web.sh [NODES]    default: 5000 nodes with 8 cards, with a pod on each card
#
# A real etcd and kube-apiserver have the cluster, and share the machine with the extender and the browser, which draws
# without a GPU. It prints the figures, and checks none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. bench/flags.sh

[[ ${1-1} =~ ^[1-9][0-9]{0,3}$ && ${1-1} -le 5000 ]] || fail_usage "\"$1\" is not a number from 1 to 5000"
MGPU_WEB_NODES=${1:-5000} exec bash test/run.sh web-scale
