#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
#
#   test/run.sh                                             all stages
#   test/run.sh format|unit|tsan|quick|gpu|cluster|node...  only these stages
#   test/run.sh bench                                       none of them: what bench/node.sh measures
#
# format   clang-format and gofmt find nothing to change
# unit     all unit tests under AddressSanitizer and UBSan
# tsan     those where threads meet, under ThreadSanitizer
# quick    bench/run.sh --quick: what must hold of the benchmarks, never times
# gpu      the trial of bench/gpu, all of it, with stand-ins for the GPU and its driver; most needs root
# cluster  mgpu-extender on a real etcd, kube-apiserver and kube-scheduler
# node     mgpu-device-plugin too, on a real kubelet, containerd and runc; without root it is skipped
#
# Programs are those with AddressSanitizer and UBSan in the last two stages, too.
# Ends with one line, "N passed, N failed", and fails where a test failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly components_version=1.36.3
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/mgpu
# Not those that speak gRPC: its library is not built for ThreadSanitizer.
readonly threaded_targets=(base_test common_test kube_test ledger_test market_test verbs_test http_test
  extender_test plugin_test node_test monitor_test)
readonly threaded_tests='^(common(/base|/kube|/http)?|extender(/ledger|/market|/verbs)?|plugin(/node|/monitor)?)\.'
readonly cluster_timeout=20m
readonly node_tests='^TestNode'

jobs=$(nproc)
go=
passed=0
failed=0
child=
scratch=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-test.XXXXXX")
export NINJA_STATUS='[%f/%t %es] '
# What one checkout has compiled serves the next, wherever it lies.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

say() { printf '[%3ds] %s\n' "$SECONDS" "$*"; }

# A child that keeps things outside the scratch folder, such as mounts, takes them down first.
leave() {
  if [[ -n $child ]]; then
    kill -TERM -- "-$child" 2>/dev/null || true
    local tries=0
    while ((tries++ < 600)) && kill -0 -- "-$child" 2>/dev/null; do sleep 0.1; done
  fi
  rm -rf "$scratch"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs a command as a process group of its own, so that a signal to this script ends all of it.
run() {
  local status=0
  set -m
  "$@" </dev/null &
  child=$!
  set +m
  wait "$child" || status=$?
  child=
  return "$status"
}

# A step without tests of its own that failed counts as one failed test.
step() {
  say "$1"
  shift
  run "$@" && return 0
  failed=$((failed + 1))
  say "failed: $*"
  return 1
}

# --- C++ ------------------------------------------------------------------------------------------

build() { # preset, targets (none: all)
  local preset=$1
  shift
  step "configure $preset" cmake --preset "$preset" --log-level=WARNING || return 1
  step "build $preset" ninja -C "build/$preset" -j "$jobs" "$@"
}

# Every 50th test that passes, and everything else.
thin_out() {
  awk '/^ *Start +[0-9]+:/ {next} / Passed / {if (++n % 50) next} {print; fflush()}'
}

ctest_thinned() { ctest "$@" 2>&1 | thin_out; }

count_ctest() { # JUnit file
  local suite
  suite=$(grep -o -m 1 '<testsuite [^>]*' <(tr '\n' ' ' <"$1"))
  local tests failures skipped disabled
  tests=$(attribute tests "$suite")
  failures=$(attribute failures "$suite")
  skipped=$(attribute skipped "$suite")
  disabled=$(attribute disabled "$suite")
  passed=$((passed + tests - failures - skipped - disabled))
  failed=$((failed + failures))
}

# A runner that failed without a test that did, such as one that was not built, counts as one.
count_unexplained() { # exit status, failures before
  if [[ $1 -ne 0 && $failed -eq $2 ]]; then
    failed=$((failed + 1))
  fi
}

attribute() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" <<<"$2"; }

run_ctest() { # preset, more arguments of ctest
  local preset=$1 report=$scratch/$1.xml status=0 before=$failed
  shift
  say "test $preset"
  run ctest_thinned --test-dir "build/$preset" -j "$jobs" --output-on-failure --timeout 300 \
    --no-tests=error --output-junit "$report" "$@" || status=$?
  [[ ! -s $report ]] || count_ctest "$report"
  count_unexplained "$status" "$before"
}

stage_unit() { build asan && run_ctest asan; }

# Targets exist where their folder has tests.
existing_targets() { # preset, names
  local preset=$1 name
  shift
  for name in "$@"; do
    if ninja -C "build/$preset" -t query "$name" >/dev/null 2>&1; then
      echo "$name"
    fi
  done
}

# ThreadSanitizer of GCC 12 does not start where the kernel spreads addresses widely
# (vm.mmap_rnd_bits over 28); setarch turns that off for its children.
unspread() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    setarch "$(uname -m)" -R "$@"
  else
    "$@"
  fi
}

stage_tsan() {
  step "configure tsan" cmake --preset tsan --log-level=WARNING || return 1
  local targets
  mapfile -t targets < <(existing_targets tsan "${threaded_targets[@]}")
  step "build tsan" unspread ninja -C build/tsan -j "$jobs" "${targets[@]}" || return 1
  run_tsan
}

run_tsan() {
  local real
  real=$(command -v ctest)
  ctest() { unspread "$real" "$@"; }
  run_ctest tsan -R "$threaded_tests"
  unset -f ctest
}

stage_format() {
  step "format of C++" check_cpp_format && passed=$((passed + 1))
  step "format of Go" check_go_format && passed=$((passed + 1))
}

# Its last line counts as the tests here do.
stage_quick() {
  local log=$scratch/quick.log status=0 before=$failed
  say "test quick"
  run quick_bench "$log" || status=$?
  count_last_line "$log"
  count_unexplained "$status" "$before"
}

# "N passed, N failed", and what was skipped.
count_last_line() { # log
  local last
  last=$(tail -n 1 "$1")
  if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(, [0-9]+ skipped)?$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  fi
}

# As the unit tests were built: nothing is compiled once more for it.
quick_bench() { MGPU_PRESET=asan bash bench/run.sh --quick 2>&1 | tee "$1"; }

stage_gpu() {
  local log=$scratch/gpu.log status=0 before=$failed
  build asan mgpu-gpu-trial mgpu-cuda-program gpu_stand_ins || return 1
  step "build the folder of the trial" gpu_folder || return 1
  say "test gpu"
  run gpu_trial "$log" || status=$?
  count_last_line "$log"
  count_unexplained "$status" "$before"
}

# As the unit tests were built.
gpu_folder() { MGPU_PRESET=asan bash bench/gpu/build.sh build/asan/gpu-trial; }

gpu_trial() { # log
  PYTHONDONTWRITEBYTECODE=1 python3 test/bench/gpu/trial_test.py build/asan/gpu-trial \
    build/asan/test/gpu-stand-ins 2>&1 | tee "$1" | grep --line-buffered -v ' \.\.\. ok$'
}

check_cpp_format() {
  find bench common extender plugin test -name '*.cc' -o -name '*.h' | xargs clang-format --dry-run -Werror
}

check_go_format() {
  local go unformatted
  go=$(bash deploy/install.sh go)
  unformatted=$(cd test/cluster && "$("$go" env GOROOT)/bin/gofmt" -l .)
  [[ -z $unformatted ]] || { printf 'gofmt would change %s\n' $unformatted && return 1; }
}

# --- real cluster ---------------------------------------------------------------------------------

# etcd, kube-apiserver, kube-scheduler and kubelet in one program.
build_components() { # where to
  local component=k8s.io/component-base/version client=k8s.io/client-go/pkg/version
  local -a values=()
  local package
  for package in "$component" "$client"; do
    values+=("-X $package.gitVersion=v$components_version" "-X $package.gitMajor=${components_version%%.*}"
      "-X $package.gitMinor=$(cut -d . -f 2 <<<"$components_version")")
  done
  (cd test/cluster/components && go_build -ldflags "-s -w ${values[*]}" -o "$1/" .)
}

# containerd, its shim, ctr and the network plugins, each a program of its own.
build_runtime() { # where to
  (cd test/cluster/runtime && go_build -ldflags "-s -w" -o "$1/" tool)
}

# Says now and then how many packages are done.
go_build() {
  CGO_ENABLED=0 nice "$go" build -v -p "$jobs" -trimpath "$@" 2>&1 |
    awk '{n++} n % 100 == 0 {print "  " n " packages"; fflush()} /:[0-9]+:|^go: / {print}'
}

# Builds into a folder that the hash of the sources names, once. Sets `built` to it.
build_once() { # kind, what is built, sources
  local kind=$1 what=$2 hash
  shift 2
  hash=$(cat "$@" | sha256sum | cut -c 1-12)
  built=$cache/$kind-$hash
  [[ ! -d $built ]] || return 0
  mkdir -p "$built.new"
  step "build $what (minutes, once)" "build_${kind%%-*}" "$built.new" && mv "$built.new" "$built"
}

# Sets `go`, and what both real stages need.
prepare_components() {
  local built
  go=$(bash deploy/install.sh go) || { failed=$((failed + 1)) && return 1; }
  export GOTOOLCHAIN=auto
  build_once "components-$components_version" \
    "etcd, kube-apiserver, kube-scheduler and kubelet $components_version" \
    test/cluster/components/{go.mod,go.sum,main.go} || return 1
  export MGPU_COMPONENTS_BINARY=$built/components
  export MGPU_EXTENDER_BINARY=$PWD/build/asan/extender/mgpu-extender
  step "build the cluster tests" build_cluster_tests
}

stage_cluster() {
  prepare_components || return 1
  build asan mgpu-extender mgpu-sim kube_conformance_test || return 1
  export MGPU_SIM_BINARY=$PWD/build/asan/bench/mgpu-sim
  export MGPU_CONFORMANCE_BINARY=$PWD/build/asan/test/kube_conformance_test
  run_cluster_test cluster -test.skip "$node_tests"
}

# Nodes with and without a kubelet have a control plane each: tests count the nodes.
stage_node() {
  prepare_node || return 1
  build asan mgpu-extender mgpu-device-plugin || return 1
  export MGPU_DEVICE_PLUGIN_BINARY=$PWD/build/asan/plugin/mgpu-device-plugin
  run_cluster_test node -test.run "$node_tests"
}

# Programs as users run them, one benchmark after the other.
stage_bench() {
  prepare_node || return 1
  build release mgpu-device-plugin || return 1
  export MGPU_DEVICE_PLUGIN_BINARY=$PWD/build/release/plugin/mgpu-device-plugin
  run_cluster_test bench -test.run '^$' -test.bench "${MGPU_BENCH:-Node}" -test.benchtime 1x
}

prepare_node() {
  local built
  prepare_components || return 1
  build_once runtime "containerd and network plugins" test/cluster/runtime/{go.mod,go.sum} || return 1
  export MGPU_RUNTIME_FOLDER=$built
}

build_cluster_tests() { (cd test/cluster && CGO_ENABLED=0 "$go" test -c -o ../../build/cluster.test .); }

run_cluster_test() { # name, which tests
  local log=$scratch/$1.log status=0 before=$failed
  say "test $1"
  run cluster_tests "$log" "${@:2}" || status=$?
  passed=$((passed + $(grep -c '^--- PASS:' "$log" || true)))
  failed=$((failed + $(grep -c '^--- FAIL:' "$log" || true)))
  count_unexplained "$status" "$before"
}

cluster_tests() { # log, which tests
  (cd test/cluster &&
    TMPDIR=$scratch ../../build/cluster.test -test.v -test.timeout "$cluster_timeout" "${@:2}" 2>&1) |
    tee "$1" | grep --line-buffered -v '^=== '
}

# --------------------------------------------------------------------------------------------------

stages=("$@")
[[ ${#stages[@]} -gt 0 ]] || stages=(format unit tsan quick gpu cluster node)
for stage in "${stages[@]}"; do
  [[ $stage =~ ^(format|unit|tsan|quick|gpu|cluster|node|bench)$ ]] || {
    printf 'run.sh: "%s" is not a stage; want format, unit, tsan, quick, gpu, cluster, node or bench\n' \
      "$stage" >&2
    exit 2
  }
done

step "install" bash deploy/install.sh || { echo "0 passed, 1 failed" && exit 1; }
for stage in "${stages[@]}"; do
  say "stage $stage"
  "stage_$stage" || true
done
say "done"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
