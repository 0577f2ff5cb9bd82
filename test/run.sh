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
readonly threaded_tests=(base_test program_test http_test kube_test kube_memory_test ledger_test learning_test
  verbs_test bind_test requeue_test extender_test cards_test containers_test node_test monitor_test)
readonly cluster_timeout=20m
readonly node_tests='^TestNode'

jobs=$(nproc)
go=
passed=0
failed=0
child=
downloads=
scratch=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-test.XXXXXX")
export NINJA_STATUS='[%f/%t %es] '
# ThreadSanitizer does not start where the kernel spreads addresses widely (vm.mmap_rnd_bits over 28).
unspread=
if setarch "$(uname -m)" -R true 2>/dev/null; then unspread="setarch $(uname -m) -R"; fi
export unspread
# What one checkout has compiled serves the next, wherever it lies.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

say() { printf '[%3ds] %s\n' "$SECONDS" "$*"; }

# A child that keeps things outside the scratch folder, such as mounts, takes them down first.
leave() {
  [[ -z $downloads ]] || kill "$downloads" 2>/dev/null || true
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

# CMake forgets what a preset sets where the compiler is another than the last time.
configure() { # preset
  cmake --preset "$1" --log-level=WARNING >/dev/null || return 1
  [[ $1 == release ]] || grep -q '^MGPU_SANITIZE:STRING=.' "build/$1/CMakeCache.txt" ||
    cmake --fresh --preset "$1" --log-level=WARNING >/dev/null
}

build() { # preset, targets (none: all)
  local preset=$1
  shift
  step "configure $preset" configure "$preset" || return 1
  step "build $preset" ninja -C "build/$preset" -j "$jobs" "$@"
}

# Runs test programs, each in two halves, as many at a time as there are cores. A half that fails
# prints all that it has printed.
run_programs() { # preset, programs
  local preset=$1 reports=$scratch/$1 before=$failed status=0
  shift
  say "test $preset"
  mkdir -p "$reports"
  run halves "$reports" "$@" || status=$?
  count_gtest "$reports"
  count_unexplained "$status" "$before"
}

halves() { # where reports go, programs
  local reports=$1 program
  shift
  for program in "$@"; do
    printf '%s %s\n' "$program" 0 "$program" 1
  done | xargs -P "$jobs" -L 1 bash -c 'half "$0" "$1" "$2"' "$reports"
}

half() { # where its report goes, program, 0 or 1
  local log
  log=$1/$(basename "$2").$3
  GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=$3 timeout 600 $unspread "$2" --gtest_brief=1 \
    >"$log" 2>&1 </dev/null && return 0
  printf '%s, half %s of 2, failed:\n%s\n' "$(basename "$2")" "$3" "$(tail -n 400 "$log")"
  # A crash or a leak is not among the tests that gtest counts.
  grep -q '^\[  FAILED  \] [0-9]* test' "$log" || echo '[  FAILED  ] 1 test, which ended the program.' >>"$log"
  return 1
}
export -f half

# "[  PASSED  ] N tests." and "[  FAILED  ] N tests, listed below:" of every half.
count_gtest() { # reports
  local verdict number
  while read -r verdict number; do
    [[ $verdict == PASSED ]] && passed=$((passed + number)) || failed=$((failed + number))
  done < <(sed -nE 's/^\[  (PASSED|FAILED)  \] ([0-9]+) tests?[.,].*/\1 \2/p' "$1"/*)
}

# A runner that failed without a test that did, such as one that was not built, counts as one.
count_unexplained() { # exit status, failures before
  if [[ $1 -ne 0 && $failed -eq $2 ]]; then
    failed=$((failed + 1))
  fi
}

# Those of a preset, by name: an older build may have left others there.
test_programs() { ninja -C "build/$1" -t targets all | sed -n "s#^\(test/[a-z_]*_test\): .*#build/$1/\1#p"; }

stage_unit() { build asan && run_programs asan $(test_programs asan); }

stage_tsan() {
  step "configure tsan" configure tsan || return 1
  step "build tsan" ninja -C build/tsan -j "$jobs" "${threaded_tests[@]}" || return 1
  run_programs tsan "${threaded_tests[@]/#/build/tsan/test/}"
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
  # Not both at once.
  [[ -z $downloads ]] || wait "$downloads" || true
  downloads=
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

# Downloads wait for the network and compiling for the processors, so that the former begin first.
# What fails here is downloaded, or reported, by the stage that needs it.
download_go_modules() {
  local go folder
  go=$(bash deploy/install.sh go) || return 0
  export GOTOOLCHAIN=auto
  for folder in test/cluster/components test/cluster test/cluster/runtime; do
    (cd "$folder" && "$go" mod download) || true
  done
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
if [[ " ${stages[*]} " =~ \ (cluster|node|bench)\  ]]; then
  download_go_modules >/dev/null 2>&1 </dev/null &
  downloads=$!
fi
times=
for stage in "${stages[@]}"; do
  say "stage $stage"
  begun=$SECONDS
  "stage_$stage" || true
  times+=" $stage $((SECONDS - begun))"
done
say "done; seconds by stage:$times"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
