#!/usr/bin/env bash
# Renders the plain manifests in this folder, the golden files of the tests, and the list of all values,
# from deploy/chart. It needs helm, as $MGPU_HELM_BINARY or on $PATH, and python3.
#
#   deploy/manifests/render.sh [FOLDER]   writes mgpu.yaml, README.md and the golden files to a folder; default: to their places in this repository
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly root
readonly helm=${MGPU_HELM_BINARY:-helm}
readonly golden=$root/test/golden/chart
readonly namespace=mgpu-system

# The version of Kubernetes decides whether policies can be installed.
render() { # values
  "$helm" template mgpu "$root/deploy/chart" --namespace "$namespace" --kube-version 1.30.0 --skip-tests \
    --set image.registry=registry.example.com/mgpu "$@"
}

with_namespace() {
  cat <<MANIFEST
# Rendered from deploy/chart by deploy/manifests/render.sh; do not edit. kustomization.yaml says how to change it.
---
# The device plugin is privileged.
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
  labels:
    pod-security.kubernetes.io/enforce: privileged
MANIFEST
  cat
}

render | with_namespace >"${1:-$root/deploy/manifests}/mgpu.yaml"
for name in everything least loopback; do
  render --values "$golden/$name.values.yaml" >"${1:-$golden}/$name.yaml"
done
python3 -B "$root/deploy/manifests/values.py" >"${1:-$root/deploy/chart}/README.md"
