#!/usr/bin/env bash
# Runs Go tests of this folder with build/cluster.test, for ctest (CMakeLists.txt).
#
#   run_tests.sh [FLAG...] [PATTERN] [FLAG OF GO...]
#
# It runs the tests whose names match the pattern and begin with the variable MGPU_TEST, both regular expressions, or the
# benchmarks that MGPU_BENCH names.
#
#   --except PATTERN   not those that match this
#   --benchmarks       benchmarks and no tests
#   --kubelet          in namespaces for a kubelet (namespaces.sh), where the machine allows them
#   --full-cluster     with controllers, Services and a network of pods; also in such namespaces
#   --earlier          with the components of MGPU_EARLIER_COMPONENTS_BINARY
#   --kubelet-version VERSION
#                      with this kubelet of the folder MGPU_KUBELETS_FOLDER, and not at all if it has none
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Prints the pattern of Go for the tests to run; nothing if there are none.
selected_tests() { # pattern, exceptions
  local name=${MGPU_TEST-} subtest=
  [[ $name != */* ]] || subtest=/${name#*/} name=${name%%/*}
  grep -hoE '^func Test\w+' ./*_test.go | cut -c 6- | grep -E "$1" | grep -vE "${2:-^$}" | grep -E "$name" |
    paste -sd '|' | sed "s#.*#^(&)\$#" | tr -d '\n'
  printf '%s' "$subtest"
}

namespaces=() except='' flags=()
while [[ ${1-} == --* ]]; do
  case $1 in
    --except) except=$2 && shift ;;
    --benchmarks) flags=(-test.run '^$' -test.bench "${MGPU_BENCH:-Node}" -test.benchtime 1x) ;;
    --kubelet) namespaces=(bash namespaces.sh) ;;
    --full-cluster) namespaces=(bash namespaces.sh) && export MGPU_FULL_CLUSTER=1 ;;
    --earlier) export MGPU_COMPONENTS_BINARY=$MGPU_EARLIER_COMPONENTS_BINARY ;;
    --kubelet-version)
      export MGPU_KUBELET_BINARY=$MGPU_KUBELETS_FOLDER/$2/kubelet
      [[ -x $MGPU_KUBELET_BINARY ]] || { echo "0 passed, 0 failed" && exit; }
      shift
      ;;
  esac
  shift
done
if [[ ${#flags[@]} -eq 0 ]]; then
  tests=$(selected_tests "$1" "$except")
  shift
  [[ $tests == '^('* ]] || { echo "0 passed, 0 failed" && exit; }
  flags=(-test.run "$tests")
fi
# Without them tests with containers are skipped.
if [[ ${#namespaces[@]} -gt 0 ]] && { [[ $EUID -ne 0 ]] || ! bash namespaces.sh true; }; then
  [[ $EUID -ne 0 ]] || echo "this machine forbids namespaces with their own mounts, network and processes, so that no kubelet can run"
  namespaces=()
fi
export TMPDIR=${MGPU_SCRATCH_FOLDER:-${TMPDIR:-/tmp}}
exec "${namespaces[@]}" ../../build/cluster.test -test.v "${flags[@]}" "$@"
