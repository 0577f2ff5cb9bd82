#!/usr/bin/env bash
# Runs Go tests of this folder with build/cluster.test, for ctest (CMakeLists.txt).
#
#   run_tests.sh [FLAG...] [PATTERN] [FLAG OF GO...]
#
# It runs the tests whose names match the pattern and the variable MGPU_TEST, both regular expressions, or the benchmarks
# that MGPU_BENCH names.
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

# Sets `tests` to the pattern of Go for the tests to run, or to nothing if there are none.
select_tests() { # pattern, exceptions
  local name=${MGPU_TEST-} subtest= status=0
  [[ $name != */* ]] || subtest=/${name#*/} name=${name%%/*}
  grep -qE "$name" </dev/null 2>/dev/null || status=$?
  [[ $status -le 1 ]] || { printf 'MGPU_TEST: "%s" is not a regular expression of grep -E\n' "$name" && exit 2; }
  tests=$(grep -hoE '^func Test\w+' ./*_test.go | cut -c 6- | grep -E "$1" | grep -vE "${2:-^$}" | grep -E "$name" |
    paste -sd '|') || true
  [[ -z $tests ]] || tests="^($tests)\$$subtest"
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
  select_tests "$1" "$except"
  shift
  [[ -n $tests ]] || { echo "0 passed, 0 failed" && exit; }
  flags=(-test.run "$tests")
fi
# Without them tests with containers are skipped.
if [[ ${#namespaces[@]} -gt 0 ]] && { [[ $EUID -ne 0 ]] || ! bash namespaces.sh true; }; then
  [[ $EUID -ne 0 ]] || echo "this machine forbids namespaces with their own mounts, network and processes, so that no kubelet can run"
  namespaces=()
fi
# The program of a stage is that of its build, unless a soak names another one, which also says how long it takes.
unset MGPU_EXTENDER_BINARY
[[ -z ${MGPU_SOAK_EXTENDER-} ]] || export MGPU_EXTENDER_BINARY=$MGPU_SOAK_EXTENDER
[[ -z ${MGPU_SOAK_MINUTES-} ]] || set -- "$@" -test.timeout "$((${MGPU_SOAK_MINUTES%.*} + 30))m"
export TMPDIR=${MGPU_SCRATCH_FOLDER:-${TMPDIR:-/tmp}}
exec "${namespaces[@]}" ../../build/cluster.test -test.v "${flags[@]}" "$@"
