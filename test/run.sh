#!/usr/bin/env bash
# Installs missing packages, builds mgpu and runs the tests.
#
#   test/run.sh                                    runs format, tidy, unit, tsan, release, images, simulate, node,
#                                                  install, cluster, web and gpu
#   test/run.sh STAGE...                           runs only these stages
#   test/run.sh --again                            also runs tests that have passed here with the same inputs (reuse.sh)
#   test/run.sh simulate --histories N             runs at least N histories with the release build
#   test/run.sh fuzz [--seconds N]                 runs each fuzzer for N seconds, or a minute
#   MGPU_TEST=REGEX test/run.sh cluster|web|node|install|skew|kueue
#                                                  runs only the matching Go tests
#
# format   checks that clang-format and gofmt have nothing to change
# tidy     checks that clang-tidy finds nothing in the product
# unit     runs all unit tests with AddressSanitizer and UBSan
# tsan     runs the multithreaded unit tests with ThreadSanitizer
# release  compiles both programs as users run them, with g++, and starts them
# images   builds the container images and the files of a release, and checks them and the list of all flags; some of
#          it needs root
# gpu      runs the trial of bench/gpu with stand-ins for the GPU and its driver; most of it needs root
# simulate runs histories of a simulated cluster for a minute: some seeds always, and new ones each day
# cluster  tests mgpu-extender with a real etcd, kube-apiserver and kube-scheduler. MGPU_GANGS is the number of random
#          groups, 30 by default
# web      tests the web page of mgpu-extender in Chromium, with the same components. With
#          MGPU_SCREENSHOTS=FOLDER it writes pictures of the page there
# node     tests mgpu-device-plugin with a real kubelet, containerd and runc; skipped without root
# install  renders deploy/chart, and installs it with helm and images on a whole cluster, also with
#          kube-controller-manager and kube-proxy; the installations are skipped without root
#
# skew     tests this version of mgpu beside two earlier ones with a real kubelet, the upgrade of the chart on a whole
#          cluster, and kube-scheduler 1.22; needs root and the whole history
# old-kubelets
#          runs tests of the stage node with kubelet 1.25, 1.28 and 1.31, or the versions in MGPU_KUBELETS; needs root
# node-slow
#          runs the tests of a real kubelet that take minutes, of which the stage node has the first part or none
# kueue    tests groups of pods that Kueue's controller admits, with the components of the stage cluster
# faults   breaks the product in one place after another, and checks that the simulation finds it
# fuzz     feeds changed messages to the parsers of bytes from outside, with libFuzzer
# bench    runs the Go benchmarks with the device plugin, as bench/node.sh does
# throughput
#          measures how many pods kube-scheduler binds in a second with the extender, as bench/throughput.sh does,
#          how long ordinary pods wait beside pods that are hard to place, as bench/waits.sh does, or how long a start
#          takes beside pending pods, as bench/start.sh does
# failover measures how long no pod is bound when the leader of two extenders ends, as bench/failover.sh does
# web-scale
#          measures a start and the web page with a large cluster, as bench/web.sh does
# soak     runs arrivals, edits and kills with a real control plane for MGPU_SOAK_MINUTES, as bench/soak.sh does
# fake-gpu runs NVIDIA's own bindings of PyPI on the fake driver of test/gpu, and compares its functions with the headers
#          of CUDA; it needs the network the first time
#
# The programs under test have AddressSanitizer and UBSan, except in the stages format, tidy, tsan, release, images,
# skew, faults, install, bench, throughput, failover, web-scale and soak, and in simulate --histories. The stages node,
# install, cluster, web and gpu wait most of the time: they are prepared first, each begins in the background as soon as
# it is prepared, while the others compile and compute, and their output is printed at the end. A stage with a kubelet
# has its own mounts, network and processes (test/cluster/namespaces.sh), so that several can run at the same time.
# The last line of the output is "N passed, N failed". The exit status is 0 if no test failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source test/reuse.sh
source test/background.sh

readonly components_version=1.37.2
# The stage skew also runs tests with this version, whose modules are in test/cluster/components/1.36.mod.
readonly earlier_version=1.36.3
# helm renders the chart for this version by default. It is the first one with all policies of the chart.
readonly helm_version=1.36.3
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/mgpu
# Without the data for debuggers, compiling takes a tenth less.
readonly go_flags=(-trimpath -gcflags=all=-dwarf=false)
# A stage takes up to 20 minutes beside others, and several times as long on a busy machine.
readonly cluster_timeout=90m
readonly background_stages='^(node|install|cluster|web|gpu)$'
readonly kubelet_stages='^(node|kubelet|install|skew|bench)'
readonly node_tests='^TestNode'
readonly old_kubelet_tests='^TestNode(ContainersSeeExactly|OffersNoCardWhere|RunsAPodWithoutCards|MemoryAsADevicePlugin'\
'|EndedPods|APodDeletedAtOnce|ReusedDevices|RejectsContainers|NeverAllocates|PodsThatAreRejected|CrashedContainer'\
'|KubeletKilled|KubeletWithout|PluginKilledWhileContainersRun|PluginUpgrade|WithASlowAndARateLimiting'\
'|ReportsTheUsage)'
readonly slow_node_tests='^TestNode(WithoutDriftsReportsNone|CreatesAndDeletesManyPods)$'
readonly web_tests='^TestWeb'
readonly install_tests='^Test(Install|Chart)'
readonly kueue_tests='^TestKueue'
readonly skew_tests='^TestSkew'
# These need a whole cluster, as the stage install; the others come first.
readonly skew_chart_tests='^TestSkewChart'
readonly skew_other_tests='^TestSkew([^C]|C[^h])'
# What depends most on the version of Kubernetes, of the stages cluster, node and install.
readonly earlier_tests='^Test(AGang|The(Extender|DevicePlugin)HasExactly|Preemption|TheCardsOfVictims|NoPodIs|Nobody'\
'|OtherSubresources|OnlyWho|APendingPod|Node(ContainersSeeExactly|CrashedContainer|EndedPods|KubeletKilled|PluginUpgrade'\
'|ReplacedPlugin|TwoDevicePlugins|UpgradeWithAnOverlap)|Install(GivesAPod|UpgradeReplaces|Uninstall|SchedulerOfTheChart'\
'|Policies|StaticPod|Doctor))'
readonly simulation_time=60s
# The first seed of a day. Each process adds its number to it, and the number of processes from one history to
# the next.
readonly simulation_seed=$(date -u +%Y%m%d)000000

jobs=$(nproc)
go=
helm=
kueue=
etcd=
passed=0
failed=0
child=
downloads=
cluster_tests_built=
scratch=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-test.XXXXXX")
export NINJA_STATUS='[%f/%t %es] '
# ThreadSanitizer does not start if the kernel randomizes addresses too widely (vm.mmap_rnd_bits over
# 28), so its tests run without address randomization.
no_randomization=
if setarch "$(uname -m)" -R true 2>/dev/null; then no_randomization="setarch $(uname -m) -R"; fi
export no_randomization
# Other checkouts can use the results of this compilation.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

say() { printf '[%3ds] %s\n' "$SECONDS" "$*"; }

# Waits for the child, which removes its mounts and processes after SIGTERM.
leave() {
  local pid
  [[ -z $downloads ]] || kill "$downloads" 2>/dev/null || true
  for pid in "${background[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  end_child
  [[ ${#background[@]} -eq 0 ]] || wait "${background[@]}" 2>/dev/null || true
  rm -rf "$scratch"
}

end_child() {
  local tries=0
  [[ -n $child ]] || return 0
  kill -TERM -- "-$child" 2>/dev/null || true
  while ((tries++ < 600)) && kill -0 -- "-$child" 2>/dev/null; do sleep 0.1; done
  # This ends all processes in the namespaces of the child, too.
  kill -KILL -- "-$child" 2>/dev/null || true
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs a command in its own process group, so that a signal to this script ends all its processes.
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

# Runs a command that has no tests of its own. If it fails, it counts as one failed test.
step() {
  say "$1"
  shift
  run "$@" && return 0
  failed=$((failed + 1))
  say "failed: $*"
  return 1
}

# --- C++ ------------------------------------------------------------------------------------------

# If the compiler has changed, CMake discards the variables of the preset, and must configure again.
configure() { # preset
  cmake --preset "$1" --log-level=WARNING >/dev/null || return 1
  [[ $1 == release ]] || grep -q '^MGPU_SANITIZE:STRING=.' "build/$1/CMakeCache.txt" ||
    cmake --fresh --preset "$1" --log-level=WARNING >/dev/null
}

build() { # preset, targets (default all)
  local preset=$1
  shift
  step "configure $preset" configure "$preset" || return 1
  step "build $preset" nice ninja -C "build/$preset" -j "$jobs" "$@"
}

# Runs the tests that a preset of ctest selects. Some wait, so there is one process more than cores.
run_tests() { # test preset, preset of the build
  local report=$scratch/$1.xml status=0 before=$failed test its_passed its_failed
  local -A inputs=()
  local -a known=()
  say "test $1"
  inputs_of_tests "$1" "$2"
  for test in "${!inputs[@]}"; do
    ! has_passed "$2/$test" "${inputs[$test]}" || known+=("$test")
  done
  [[ ${#known[@]} -eq 0 ]] || say "${#known[@]} of the tests have passed before"
  run ctest_with_report "$1" "$report" "^($(IFS='|' && echo "${known[*]}"))\$" || status=$?
  while read -r test its_passed its_failed; do
    passed=$((passed + its_passed))
    failed=$((failed + its_failed))
    [[ $its_failed -ne 0 ]] || keep_result "$2/$test" "${inputs[$test]-}" "$its_passed"
  done < <([[ ! -f $report ]] || python3 -B test/results.py "$report")
  count_unexplained "$status" "$before"
}

# Sets `inputs` for the halves of test programs, unless they may read all files, as the tests of the tree.
inputs_of_tests() { # test preset, preset of the build
  local files program
  files=$(hash_of_files "$not_read_by_programs") || return 0
  for program in $(ctest --preset "$1" -N | sed -nE 's/^ *Test +#[0-9]+: ([a-z_]+_test)\.0$/\1/p'); do
    [[ $program != tree_test ]] || continue
    inputs[$program.0]="$files $machine $(inputs_of_program "$2" "$program")"
    inputs[$program.1]=${inputs[$program.0]}
  done
}

ctest_with_report() { # test preset, report, tests to leave out
  $no_randomization ctest --preset "$1" -j "$((jobs + 1))" -E "$3" --output-junit "$2" \
    --test-output-size-passed 10000000 --test-output-size-failed 10000000 2>&1 | grep --line-buffered -v '^ *Start '
}

# If a runner failed without a failed test, for example because it was not built, this counts as one
# failed test.
count_unexplained() { # exit status, failures before
  if [[ $1 -ne 0 && $failed -eq $2 ]]; then
    failed=$((failed + 1))
  fi
}

stage_unit() { build asan && run_tests unit asan; }

stage_tsan() { build tsan threaded_tests && run_tests tsan tsan; }

stage_release() { build release mgpu-extender mgpu-device-plugin kubectl-mgpu && run_tests release release; }

# The programs are those of the stage release.
stage_images() {
  prepare_images || return 1
  run_tests images release
  unset MGPU_HELM_BINARY
}

prepare_images() {
  local built packages
  local -a programs=(mgpu-extender mgpu-device-plugin mgpu-mps mgpu-set-limits kubectl-mgpu mgpu-sim)
  go=$(bash deploy/install.sh go) && packages=$(bash deploy/install.sh spdx) || { failed=$((failed + 1)) && return 1; }
  export GOTOOLCHAIN=auto PYTHONPATH=$packages
  build release "${programs[@]}" || return 1
  build_once runtime "containerd, runc and network plugins" test/cluster/{runtime,runc}/{go.mod,go.sum} || return 1
  export MGPU_RUNTIME_FOLDER=$built
  build_once "helm-$helm_version" "helm" test/cluster/helm/{go.mod,go.sum} || return 1
  export MGPU_HELM_BINARY=$built/helm
}

# The build folder says how each source is compiled, and has the headers that are generated.
stage_tidy() {
  step "configure asan" configure asan || return 1
  step "generate sources" nice ninja -C build/asan mgpu_proto mgpu_kube_proto || return 1
  step "clang-tidy" python3 -B test/tidy.py build/asan && passed=$((passed + 1))
}

stage_format() {
  step "format of C++" check_cpp_format && passed=$((passed + 1))
  step "format of Go" check_go_format && passed=$((passed + 1))
  step "stages in the background" bash test/background_test.sh && passed=$((passed + 1))
  step "results of ctest" python3 -B test/results_test.py && passed=$((passed + 1))
}

# Counts the tests in the last line of a log, "N passed, N failed" or "N passed, N failed, N skipped".
count_last_line() { # log
  local last
  last=$(tail -n 1 "$1")
  if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(, [0-9]+ skipped)?$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  fi
}

stage_simulate() {
  local preset=asan log=$scratch/simulate.log status=0 before=$failed
  [[ -z $histories ]] || preset=release
  step "texts of the planted faults" python3 -B test/simulation/faults.py --texts && passed=$((passed + 1))
  build "$preset" mgpu-simulate || return 1
  say "simulate histories from seed $simulation_seed"
  run simulate "$log" "build/$preset/test/simulation/mgpu-simulate" || status=$?
  passed=$((passed + $(grep -c 'kept all promises' "$log" || true)))
  failed=$((failed + $(grep -c 'breaks a promise' "$log" || true)))
  count_unexplained "$status" "$before"
}

simulate() { run_histories "$2" 2>&1 | tee "$1"; } # log, program

# Each process counts as one test.
run_histories() { # program
  local -a limit=(--time "$simulation_time") processes=()
  local i process status=0
  [[ -z $histories ]] || limit=(--time 14400m --histories "$(((histories + jobs - 1) / jobs))")
  "$1" --seeds-file test/simulation/seeds.txt --histories 1 || status=1
  for ((i = 0; i < jobs; i++)); do
    "$1" --first-seed "$((simulation_seed + i))" --step "$jobs" "${limit[@]}" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process" || status=1; done
  return "$status"
}

stage_faults() {
  local log=$scratch/faults.log status=0 before=$failed
  say "faults that the simulation has to find"
  run faults "$log" || status=$?
  count_last_line "$log"
  count_unexplained "$status" "$before"
}

faults() { python3 -B test/simulation/faults.py 2>&1 | tee "$1"; }

prepare_gpu() {
  build asan mgpu-gpu-trial mgpu-cuda-program mgpu-set-limits gpu_stand_ins || return 1
  step "build the folder of the trial" gpu_folder
}

stage_gpu() {
  local log=$scratch/gpu.log status=0 before=$failed
  say "test gpu"
  run gpu_trial "$log" || status=$?
  count_last_line "$log"
  count_unexplained "$status" "$before"
}

# Uses the build of the unit tests.
gpu_folder() { MGPU_PRESET=asan bash bench/gpu/build.sh build/asan/gpu-trial; }

gpu_trial() { # log
  PYTHONDONTWRITEBYTECODE=1 python3 test/bench/gpu/trial_test.py build/asan/gpu-trial \
    build/asan/test/gpu-stand-ins 2>&1 | tee "$1" | grep --line-buffered -v ' \.\.\. ok$'
}

stage_fake-gpu() {
  local log=$scratch/fake-gpu.log status=0 before=$failed
  build asan fake_gpu_test fake_gpu_machine share_test mgpu-share-page || return 1
  run fake_gpu_clients "$log" || status=$?
  count_last_line "$log"
  count_unexplained "$status" "$before"
}

fake_gpu_clients() { python3 -B test/gpu/bindings_test.py build/asan 2>&1 | tee "$1"; } # log

# The inputs that reach new code are kept in build/fuzz/fuzzing for the next run.
stage_fuzz() {
  local log=$scratch/fuzz.log status=0 before=$failed
  build fuzz fuzzers || return 1
  say "fuzz each parser for $fuzz_seconds s"
  run fuzz_all "$log" || status=$?
  passed=$((passed + $(grep -c ': passed, ' "$log" || true)))
  failed=$((failed + $(grep -c ': failed, ' "$log" || true)))
  count_unexplained "$status" "$before"
}

fuzz_all() { # log
  xargs -P "$jobs" -L 1 bash -c 'fuzz_one "$0" "$@"' "$fuzz_seconds" <test/fuzz/fuzzers.txt | tee "$1"
}

# Prints one line, and the end of the output if the fuzzer has failed.
fuzz_one() { # seconds, and a line of fuzzers.txt: fuzzer, bytes of the longest input, dictionary, seeds
  local seconds=$1 name=$2 dictionary=$4 seeds=$5 folder=build/fuzz/fuzzing/$2 result=passed
  local -a arguments=("-max_total_time=$seconds" "-max_len=$3" -timeout=10 -rss_limit_mb=2048
    -print_final_stats=1 "-artifact_prefix=$folder/")
  mkdir -p "$folder/corpus"
  [[ $dictionary == - ]] || arguments+=("-dict=test/fuzz/dictionaries/$dictionary.dict")
  arguments+=("$folder/corpus" "test/fuzz/corpus/$name")
  [[ $seeds == - ]] || arguments+=("$seeds")
  nice "build/fuzz/test/fuzz/fuzz_$name" "${arguments[@]}" >"$folder/log" 2>&1 </dev/null || result=failed
  printf '%s: %s, %s executions, %s a second, coverage %s, corpus of %s files, %s MB\n' "$name" "$result" \
    "$(fuzz_value 's/^stat::number_of_executed_units: *//p')" \
    "$(fuzz_value 's/^stat::average_exec_per_sec: *//p')" \
    "$(fuzz_value 's/.* cov: ([0-9]+) .*/\1/p')" "$(find "$folder/corpus" -type f | wc -l)" \
    "$(fuzz_value 's/^stat::peak_rss_mb: *//p')"
  [[ $result == passed ]] && return 0
  grep -E 'what\(\)|ERROR|runtime error|check failed|^ +#[0-9]+ .*mgpu' "$folder/log" | cut -c 1-200 | head -n 20
  sed -n 's/.*Test unit written to /  the input is in /p' "$folder/log"
  echo "  the whole output is in $folder/log"
  return 1
}

# The last value that the expression of sed finds in the log of a fuzzer.
fuzz_value() { sed -nE "$1" "$folder/log" | tail -n 1; }
export -f fuzz_one fuzz_value

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

# Builds etcd and the components of Kubernetes of the version in `kind` as one program.
build_components() { # folder
  local component=k8s.io/component-base/version client=k8s.io/client-go/pkg/version version=${kind#*-}
  local -a values=() modules=()
  local package
  for package in "$component" "$client"; do
    values+=("-X $package.gitVersion=v$version" "-X $package.gitMajor=${version%%.*}"
      "-X $package.gitMinor=$(cut -d . -f 2 <<<"$version")")
  done
  [[ $version == "$components_version" ]] || modules=(-modfile "${version%.*}.mod")
  (cd test/cluster/components && go_build "${modules[@]}" -ldflags "-s -w ${values[*]}" -o "$1/" .)
}

# Builds containerd, its shim, ctr and the network plugins, and a runc with user namespaces, which that of Debian 12
# has not. It needs C and libseccomp.
build_runtime() { # folder
  (cd test/cluster/runtime && go_build -ldflags "-s -w" -o "$1/" tool) &&
    (cd test/cluster/runc && with_cgo=1 go_build -tags seccomp -ldflags "-s -w" -o "$1/" tool)
}

# helm is a module of its own, because it needs other versions of modules than Kubernetes.
build_helm() { # folder
  local package=helm.sh/helm/v3/pkg/chartutil version=$helm_version
  (cd test/cluster/helm && go_build -o "$1/" -ldflags "-s -w -X $package.k8sVersionMajor=${version%%.*} \
    -X $package.k8sVersionMinor=$(cut -d . -f 2 <<<"$version")" tool)
}

# Prints the folder of Kueue's module.
download_kueue() {
  (cd test/cluster/kueue && "$go" mod download -json "$(sed -nE 's#^\t(sigs.k8s.io/kueue) (v[^ ]+).*#\1@\2#p' go.mod)") |
    sed -nE 's/^\t"Dir": "(.*)",$/\1/p' | grep .
}

# Builds Kueue's controller.
build_kueue() { # folder
  (cd test/cluster/kueue && go_build -ldflags "-s -w" -o "$1/" tool)
}

# Builds etcdctl and etcdutl.
build_etcd() { # folder
  (cd test/cluster/etcd && go_build -ldflags "-s -w" -o "$1/" tool)
}

# Builds kube-scheduler 1.22.
build_legacy() { # folder
  (cd test/cluster/legacy && go_build -ldflags "-s -w" -o "$1/" .)
}

# Builds kubelet of the version `kubelet`, a folder in test/cluster/kubelets, without cloud providers.
build_kubelet() { # folder
  local version package=k8s.io/component-base/version
  version=$(sed -nE 's#.*\tk8s.io/kubernetes v([0-9.]+)( .*)?$#\1#p' "test/cluster/kubelets/$kubelet/go.mod")
  (cd "test/cluster/kubelets/$kubelet" && go_build -o "$1/" -tags providerless -ldflags "-s -w \
    -X $package.gitVersion=v$version -X $package.gitMajor=1 -X $package.gitMinor=${kubelet#1.}" tool)
}

# Builds the commit `previous` as users run it, and adds its rights, its chart and its images, where it has them.
build_previous() { # folder
  local source=$1/source
  git cat-file -e "$previous^{commit}" 2>/dev/null || {
    printf 'run.sh: a file test/cluster/previous-* names the commit %s, which this clone does not have; %s\n' \
      "$previous" 'fetch it with git fetch --unshallow'
    return 1
  }
  rm -rf "$source" && mkdir -p "$source" && git archive "$previous" | tar -x -C "$source" || return 1
  (cd "$source" && export CCACHE_BASEDIR=$PWD && cmake --preset release --log-level=WARNING >/dev/null &&
    nice ninja -C build/release -j "$jobs" mgpu-extender mgpu-device-plugin mgpu-mps) || return 1
  if [[ -f $source/deploy/images/build.sh ]]; then
    bash "$source/deploy/images/build.sh" --repository mgpu.test --tag previous "$1/images" \
      mgpu-extender mgpu-device-plugin mgpu-mps || return 1
  fi
  cp "$source"/build/release/extender/mgpu-extender "$source"/build/release/plugin/mgpu-{device-plugin,mps} "$1/" &&
    cp -r "$source/deploy" "$1/deploy" && rm -rf "$source"
}

# Prints the number of compiled packages from time to time.
go_build() {
  CGO_ENABLED=${with_cgo:-0} nice "$go" build -v -p "$jobs" "${go_flags[@]}" "$@" 2>&1 |
    awk '{n++} n % 100 == 0 {print "  " n " packages"; fflush()} /:[0-9]+:|^go: / {print}'
}

# Builds into a folder whose name contains the hash of the sources, unless it exists. Sets `built` to
# this folder.
build_once() { # kind, description, sources
  local kind=$1 what=$2 hash
  shift 2
  hash=$(cat "$@" | sha256sum | cut -c 1-12)
  built=$cache/$kind-$hash
  [[ ! -d $built ]] || return 0
  mkdir -p "$built.new"
  step "build $what (minutes, once)" "build_${kind%%-*}" "$built.new" && mv "$built.new" "$built"
}

# Prepares the stages cluster and node. Sets `go` and environment variables of the tests.
prepare_components() {
  local built
  # The download must have ended before the build starts.
  [[ -z $downloads ]] || wait "$downloads" || true
  downloads=
  go=$(bash deploy/install.sh go) || { failed=$((failed + 1)) && return 1; }
  export GOTOOLCHAIN=auto
  build_once "components-$components_version" \
    "etcd and Kubernetes $components_version" \
    test/cluster/components/{go.mod,go.sum,main.go} || return 1
  export MGPU_COMPONENTS_BINARY=$built/components
  export MGPU_EXTENDER_BINARY=$PWD/build/asan/extender/mgpu-extender
  # Another stage may use this program already.
  [[ -z $cluster_tests_built ]] || return 0
  step "build the cluster tests" build_cluster_tests && cluster_tests_built=1
}

prepare_cluster() {
  build asan mgpu-extender mgpu-device-plugin mgpu-sim kubectl-mgpu kube_conformance_test mgpu_moved_clock \
    fake_mps_control || return 1
  prepare_components || return 1
  export MGPU_DEVICE_PLUGIN_BINARY=$PWD/build/asan/plugin/mgpu-device-plugin
  export MGPU_SIM_BINARY=$PWD/build/asan/bench/mgpu-sim
  export MGPU_KUBECTL_MGPU_BINARY=$PWD/build/asan/extender/kubectl-mgpu
  export MGPU_CONFORMANCE_BINARY=$PWD/build/asan/test/kube_conformance_test
  export MGPU_MOVED_CLOCK_LIBRARY=$PWD/build/asan/test/clock/libmgpu_moved_clock.so
  export MGPU_MPS_CONTROL_BINARY=$PWD/build/asan/test/fake_mps_control
  prepare_prometheus
}

prepare_prometheus() {
  MGPU_PROMETHEUS_FOLDER=$(bash deploy/install.sh prometheus) || { failed=$((failed + 1)) && return 1; }
  export MGPU_PROMETHEUS_FOLDER
}

stage_cluster() {
  run_cluster_test cluster -test.skip "$node_tests|$install_tests|$skew_tests|$web_tests|$kueue_tests" -test.run "${MGPU_TEST:-}"
}

stage_kueue() {
  local built
  prepare_cluster || return 1
  kueue=$(download_kueue) || { say "failed: download_kueue" && failed=$((failed + 1)) && return 1; }
  build_once kueue "Kueue's controller" test/cluster/kueue/{go.mod,go.sum} || return 1
  export MGPU_KUEUE_FOLDER=$kueue MGPU_KUEUE_BINARY=$built/kueue
  run_cluster_test kueue -test.run "${MGPU_TEST:-$kueue_tests}"
}

prepare_web() {
  build asan mgpu-extender mgpu-device-plugin kubectl-mgpu || return 1
  prepare_components || return 1
  prepare_prometheus || return 1
  MGPU_CHROMIUM_BINARY=$(bash deploy/install.sh chromium) || { failed=$((failed + 1)) && return 1; }
  export MGPU_CHROMIUM_BINARY
  export MGPU_DEVICE_PLUGIN_BINARY=$PWD/build/asan/plugin/mgpu-device-plugin
  export MGPU_KUBECTL_MGPU_BINARY=$PWD/build/asan/extender/kubectl-mgpu
}

# Uses the release build.
stage_web-scale() {
  prepare_components || return 1
  build release mgpu-extender || return 1
  MGPU_CHROMIUM_BINARY=$(bash deploy/install.sh chromium) || return 1
  export MGPU_CHROMIUM_BINARY MGPU_WEB_NODES=${MGPU_WEB_NODES:-5000}
  export MGPU_EXTENDER_BINARY=$PWD/build/release/extender/mgpu-extender
  run_cluster_test web-scale -test.run '^TestWebScale$'
}

stage_web() { run_cluster_test web -test.run "${MGPU_TEST:-$web_tests}"; }

prepare_node() {
  build asan mgpu-extender mgpu-device-plugin mgpu-set-limits fake_mps_control fake_nvml fake_gpu_machine fake_gpu_cuda \
    fake_gpu_nvml fake_gpu_client fake_gpu_turns || return 1
  prepare_runtime || return 1
  export MGPU_DEVICE_PLUGIN_BINARY=$PWD/build/asan/plugin/mgpu-device-plugin
  export MGPU_FAKE_NVML_LIBRARY=$PWD/build/asan/test/fake_nvml.so
  export MGPU_FAKE_GPU_FOLDER=$PWD/build/asan/test/fake-gpu
  export MGPU_MPS_CONTROL_BINARY=$PWD/build/asan/test/fake_mps_control
}

# The stages cluster and node do not share a control plane, because tests count the nodes.
stage_node() { run_cluster_test node -test.run "${MGPU_TEST:-$node_tests}"; }
stage_node-slow() {
  prepare_node || return 1
  export MGPU_NODE_SLOW=1
  run_cluster_test node-slow -test.run "${MGPU_TEST:-$slow_node_tests}"
}

stage_old-kubelets() {
  local kubelet built
  prepare_node || return 1
  for kubelet in ${MGPU_KUBELETS:-1.25 1.28 1.31}; do
    build_once "kubelet-$kubelet" "kubelet $kubelet" "test/cluster/kubelets/$kubelet"/go.{mod,sum} || continue
    MGPU_KUBELET_BINARY=$built/kubelet \
      run_cluster_test "kubelet-$kubelet" -test.run "${MGPU_TEST:-$old_kubelet_tests}"
  done
}

# Uses the release build.
prepare_install() {
  local built
  prepare_runtime || return 1
  build_once "helm-$helm_version" "helm" test/cluster/helm/{go.mod,go.sum} || return 1
  helm=$built/helm
  kueue=$(download_kueue) || { say "failed: download_kueue" && failed=$((failed + 1)) && return 1; }
  build_once etcd "etcdctl and etcdutl" test/cluster/etcd/{go.mod,go.sum} || return 1
  etcd=$built
  build release mgpu-extender mgpu-device-plugin mgpu-mps mgpu-set-limits kubectl-mgpu fake_mps_control fake_gpu_machine \
    fake_gpu_cuda fake_gpu_nvml fake_gpu_client \
    fake_gpu_turns || return 1
  # Another stage may read them already.
  [[ ! -f $scratch/images/images.json ]] || return 0
  step "build the images" bash deploy/images/build.sh --repository mgpu.test --tag test "$scratch/images" \
    mgpu-extender mgpu-device-plugin mgpu-mps
}

stage_install() {
  export MGPU_HELM_BINARY=$helm MGPU_IMAGES_FOLDER=$scratch/images MGPU_KUEUE_FOLDER=$kueue
  export MGPU_ETCD_TOOLS_FOLDER=$etcd
  export MGPU_KUBECTL_MGPU_BINARY=$PWD/build/release/extender/kubectl-mgpu
  export MGPU_EXTENDER_BINARY=$PWD/build/release/extender/mgpu-extender
  export MGPU_MPS_CONTROL_BINARY=$PWD/build/release/test/fake_mps_control
  export MGPU_FAKE_GPU_FOLDER=$PWD/build/release/test/fake-gpu
  run_cluster_test install -test.run "${MGPU_TEST:-$install_tests}"
}

# Uses the release build.
stage_failover() {
  prepare_components || return 1
  build release mgpu-extender || return 1
  export MGPU_EXTENDER_BINARY=$PWD/build/release/extender/mgpu-extender
  export MGPU_FAILOVER_RUNS=${MGPU_FAILOVER_RUNS:-5}
  if [[ -n ${MGPU_FAILOVER_KUBE_PROXY-} ]]; then
    prepare_install || return 1
    export MGPU_HELM_BINARY=$helm MGPU_IMAGES_FOLDER=$scratch/images
    run_cluster_test failover -test.run '^TestFailoverServiceTimes$' -test.timeout 12h
    unset MGPU_HELM_BINARY
    return
  fi
  run_cluster_test failover -test.run '^TestFailoverTimes$' -test.timeout 12h
}

# Runs tests of one of the stages with `earlier_version` of Kubernetes.
run_earlier_tests() { # stage, tests of other stages
  local -x MGPU_COMPONENTS_BINARY=$earlier/components
  run_cluster_test "skew-$1-${earlier_version%.*}" -test.run "${MGPU_TEST:-$earlier_tests}" -test.skip "$2|$skew_tests"
}

# Uses the release build.
stage_skew() {
  local built previous earlier
  prepare_install || return 1
  build_once "components-$earlier_version" "etcd and Kubernetes $earlier_version" \
    test/cluster/components/{"${earlier_version%.*}".{mod,sum},main.go} || return 1
  earlier=$built
  previous=$(cat test/cluster/previous-version)
  build_once "previous-${previous::12}" "mgpu ${previous::12}" test/cluster/previous-version || return 1
  export MGPU_PREVIOUS_FOLDER=$built
  previous=$(cat test/cluster/previous-chart)
  build_once "previous-${previous::12}" "mgpu ${previous::12}" test/cluster/previous-chart || return 1
  export MGPU_PREVIOUS_CHART_FOLDER=$built
  build_once legacy "kube-scheduler 1.22" test/cluster/legacy/{go.mod,go.sum,main.go} || return 1
  export MGPU_LEGACY_SCHEDULER_BINARY=$built/legacy
  export MGPU_EXTENDER_BINARY=$PWD/build/release/extender/mgpu-extender
  export MGPU_DEVICE_PLUGIN_BINARY=$PWD/build/release/plugin/mgpu-device-plugin
  export MGPU_MPS_CONTROL_BINARY=$PWD/build/release/test/fake_mps_control
  run_cluster_test skew -test.run "${MGPU_TEST:-$skew_tests}" -test.skip "$skew_chart_tests"
  run_earlier_tests cluster "$node_tests|$install_tests|$web_tests"
  run_earlier_tests node '^Test([^N]|N[^o]|No[^d])'
  export MGPU_HELM_BINARY=$helm MGPU_IMAGES_FOLDER=$scratch/images MGPU_ETCD_TOOLS_FOLDER=$etcd
  export MGPU_KUBECTL_MGPU_BINARY=$PWD/build/release/extender/kubectl-mgpu
  run_cluster_test skew-chart -test.run "${MGPU_TEST:-$skew_tests}" -test.skip "$skew_other_tests"
  run_earlier_tests install '^Test([^I]|I[^n])'
  unset MGPU_HELM_BINARY
}

# Uses the release build, or another program. The kills and the users depend on the seed.
stage_soak() {
  prepare_components || return 1
  export MGPU_SOAK_MINUTES=${MGPU_SOAK_MINUTES:-30} MGPU_SOAK_SEED=${MGPU_SOAK_SEED:-$(date +%s)}
  if [[ -z ${MGPU_SOAK_EXTENDER-} ]]; then build release mgpu-extender || return 1; fi
  export MGPU_EXTENDER_BINARY=${MGPU_SOAK_EXTENDER:-$PWD/build/release/extender/mgpu-extender}
  run_cluster_test soak -test.run '^TestSoak$' -test.timeout "$((MGPU_SOAK_MINUTES + 30))m"
}

# Uses the release build.
stage_throughput() {
  prepare_components || return 1
  build release mgpu-extender || return 1
  export MGPU_EXTENDER_BINARY=$PWD/build/release/extender/mgpu-extender
  if [[ -z ${MGPU_WAITS_PENDING-}${MGPU_START_PENDING-} ]]; then
    export MGPU_THROUGHPUT_NODES=${MGPU_THROUGHPUT_NODES:-100} MGPU_THROUGHPUT_PAIRS=${MGPU_THROUGHPUT_PAIRS:-1}
  fi
  # Each of them runs only where its variable is set.
  run_cluster_test throughput -test.run '^Test(Throughput|Waits|StartTimes)$' -test.timeout 12h
}

# Uses the release build.
stage_bench() {
  prepare_runtime || return 1
  build release mgpu-device-plugin || return 1
  export MGPU_DEVICE_PLUGIN_BINARY=$PWD/build/release/plugin/mgpu-device-plugin
  run_cluster_test bench -test.run '^$' -test.bench "${MGPU_BENCH:-Node}" -test.benchtime 1x
}

prepare_runtime() {
  local built
  prepare_components || return 1
  build_once runtime "containerd, runc and network plugins" test/cluster/{runtime,runc}/{go.mod,go.sum} || return 1
  export MGPU_RUNTIME_FOLDER=$built
}

# Of the modules that both use, test/cluster/go.mod has the versions of components/go.mod, and the flags are the same, so that their
# packages are compiled once.
build_cluster_tests() {
  (cd test/cluster && CGO_ENABLED=0 nice "$go" test -c -p "$jobs" "${go_flags[@]}" -o ../../build/cluster.test .)
}

run_cluster_test() { # name, flags that select tests
  local log=$scratch/$1.log status=0 before=$failed
  say "test $1"
  run cluster_tests "$1" "$log" "${@:2}" || status=$?
  passed=$((passed + $(grep -c '^--- PASS:' "$log" || true)))
  failed=$((failed + $(grep -c '^--- FAIL:' "$log" || true)))
  count_unexplained "$status" "$before"
  [[ $failed -eq $before ]] || failures_of_go "$log" >>"$scratch/failures"
}

# Prints what each failed test has written first. Tests that run side by side mix their lines.
failures_of_go() { # log with the lines of -test.v
  awk '/^=== (RUN|NAME|CONT) /{test = $3; next}
    /^ *--- FAIL: /{names[++count] = $3}
    /^ *--- |^=== /{next}
    ++lines[test] <= 20 {text[test] = text[test] substr($0, 1, 300) "\n"}
    END {for (i = 1; i <= count; i++) if (names[i] in text) printf "failed: %s\n%s", names[i], text[names[i]]}' "$1"
}

# A stage with a kubelet or a whole cluster has its own namespaces. Without them its tests with containers are skipped.
cluster_tests() { # name, log, flags that select tests
  local -a namespaces=()
  if [[ $EUID -eq 0 && ($1 =~ $kubelet_stages || -n ${MGPU_HELM_BINARY-}) ]]; then
    if bash test/cluster/namespaces.sh true; then
      namespaces=(bash namespaces.sh)
    else
      say "this machine forbids namespaces with their own mounts, network and processes, so that no kubelet can run"
    fi
  fi
  # The signal that ends the tests must not end the programs that read what they print meanwhile.
  (cd test/cluster &&
    TMPDIR=$scratch "${namespaces[@]}" ../../build/cluster.test -test.v -test.timeout "$cluster_timeout" "${@:3}" 2>&1) |
    (trap '' TERM && tee "$2" | grep --line-buffered -v '^=== ')
}

# Starts the downloads early, because they wait for the network while compilations use the processors.
# A failed download is repeated, or reported, by the stage that needs it.
download_go_modules() {
  local go folder
  go=$(bash deploy/install.sh go) || return 0
  export GOTOOLCHAIN=auto
  for folder in test/cluster/components test/cluster test/cluster/{runtime,runc,helm,etcd}; do
    (cd "$folder" && "$go" mod download) || true
  done
}

# --- stages ---------------------------------------------------------------------------------------

# Runs a stage in the foreground, unless it has passed before with the same inputs.
run_stage() { # stage, inputs
  local before_passed=$passed before_failed=$failed
  if has_passed "stage/$1" "$2"; then
    say "stage $1 has passed before"
    return
  fi
  say "stage $1"
  run_timed "$1" "stage_$1"
  [[ $failed -ne $before_failed ]] || keep_result "stage/$1" "$2" "$((passed - before_passed))"
}

stages=()
histories=
fuzz_seconds=60
while [[ $# -gt 0 ]]; do
  if [[ $1 == --seconds ]]; then
    [[ ${2-} =~ ^[1-9][0-9]{0,5}$ ]] || {
      printf 'run.sh: --seconds: "%s" is not a number of seconds; want 1 to 999999\n' "${2-}" >&2
      exit 2
    }
    fuzz_seconds=$2
    shift
  elif [[ $1 == --histories ]]; then
    [[ ${2-} =~ ^[1-9][0-9]{0,11}$ ]] || {
      printf 'run.sh: --histories: "%s" is not a number of histories; want 1 or more\n' "${2-}" >&2
      exit 2
    }
    histories=$2
    shift
  elif [[ $1 == --again ]]; then
    again=1
  else
    stages+=("$1")
  fi
  shift
done
[[ ${#stages[@]} -gt 0 ]] || stages=(format tidy unit tsan release images simulate node install cluster web gpu)
for stage in "${stages[@]}"; do
  [[ $stage =~ ^(format|tidy|unit|tsan|release|images|simulate|faults|fuzz|gpu|cluster|web|node|install|node-slow|old-kubelets|skew|kueue|bench|throughput|failover|web-scale|soak|fake-gpu)$ ]] || {
    printf 'run.sh: "%s" is not a stage; want %s, %s\n' "$stage" 'format, tidy, unit, tsan, release, images, simulate' \
      'faults, fuzz, gpu, cluster, web, node, install, node-slow, old-kubelets, skew, kueue, bench, throughput, failover, web-scale, soak or fake-gpu' >&2
    exit 2
  }
done

step "install" bash deploy/install.sh || { echo "0 passed, 1 failed" && exit 1; }
machine=$(hash_of_machine)
if [[ " ${stages[*]} " =~ \ (cluster|web|node|install|node-slow|old-kubelets|skew|kueue|bench|throughput|failover|web-scale|soak)\  ]]; then
  download_go_modules >/dev/null 2>&1 </dev/null &
  downloads=$!
fi
times=
waiting=()
declare -A inputs=()
for stage in "${stages[@]}"; do inputs[$stage]=$(inputs_of_stage "$stage") || true; done
for stage in "${stages[@]}"; do
  [[ $stage =~ $background_stages ]] || continue
  if has_passed "stage/$stage" "${inputs[$stage]}"; then
    say "stage $stage has passed before"
    continue
  fi
  say "prepare stage $stage"
  before=$failed
  run_timed "prepare-$stage" "prepare_$stage"
  [[ $failed -eq $before ]] || continue
  waiting+=("$stage")
  begin_in_background "$stage"
done
for stage in "${stages[@]}"; do
  [[ ! $stage =~ $background_stages ]] || continue
  run_stage "$stage" "${inputs[$stage]}"
done
for i in "${!waiting[@]}"; do
  end_in_background "${waiting[i]}" "${background[i]}" "${inputs[${waiting[i]}]}"
done
background=()
say "done; seconds by stage:$times"
[[ $reused -eq 0 ]] || say "$reused of the tests passed before, with the same inputs; --again repeats them"
[[ ! -s $scratch/failures ]] || cat "$scratch/failures"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
