#!/usr/bin/env bash
# Installs missing packages, builds mgpu and runs the tests.
#
#   test/run.sh                                    runs format, tidy, unit, tsan, release, images, simulate, node,
#                                                  install, cluster, web and gpu
#   test/run.sh STAGE...                           runs only these stages
#   test/run.sh --again                            also runs tests that have passed here with the same inputs (reuse.sh)
#   test/run.sh simulate --histories N             runs at least N histories with the release build
#   test/run.sh fuzz [--seconds N]                 runs each fuzzer for N seconds, or a minute
#   MGPU_TEST=REGEX test/run.sh STAGE...           runs only the matching Go tests of stages with such tests
#
# A stage is a preset of ctest, and what it needs of mgpu is the target programs_of_STAGE. This script installs and builds
# that and the rest, and counts.
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
# failover, failover-service
#          measure how long no pod is bound when the leader of two extenders ends, as bench/failover.sh does
# web-scale
#          measures a start and the web page with a large cluster, as bench/web.sh does
# soak     runs arrivals, edits and kills with a real control plane for MGPU_SOAK_MINUTES, as bench/soak.sh does
# fake-gpu runs NVIDIA's own bindings of PyPI on the fake driver of test/gpu, and compares its functions with the headers
#          of CUDA; it needs the network the first time
#
# The programs under test have AddressSanitizer and UBSan, except in the stages format, tidy, tsan, release, images,
# skew, faults, install, bench, throughput, failover, failover-service, web-scale and soak, and in simulate --histories. The stages node,
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
readonly background_stages='^(node|install|cluster|web|gpu)$'
readonly default_stages=(format tidy unit tsan release images simulate node install cluster web gpu)
# What stages need besides programs of mgpu, in order: functions need_NAME.
declare -rA needs=(
  [images]="spdx runtime helm" [gpu]=gpu_folder
  [node]="components runtime" [node-slow]="components runtime" [bench]="components runtime"
  [old-kubelets]="components runtime kubelets"
  [cluster]="components prometheus" [web]="components prometheus chromium" [web-scale]="components chromium web_nodes"
  [kueue]="components prometheus kueue kueue_controller"
  [install]="components runtime helm kueue etcd images"
  [failover-service]="components runtime helm kueue etcd images runs"
  [skew]="components runtime helm kueue etcd images earlier previous legacy"
  [throughput]="components throughput_sizes" [failover]="components runs" [soak]="components soak_length"
)

jobs=$(nproc)
go=
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

# The preset of CMake that builds the programs of a preset of ctest. Nothing if there is no such preset of ctest.
preset_of() { # stage
  sed -nE "s/.*\"name\": \"$1\", .*\"configurePreset\": \"([a-z]+)\", \"filter\".*/\1/p" CMakePresets.json
}

# Builds what a stage needs. Its tests are run by run_tests.
prepare() { # stage
  local preset target=programs_of_$1 need
  preset=$(preset_of "$1")
  [[ $1 != unit ]] || target=all
  step "configure $preset" configure "$preset" || return 1
  # Tests of a whole build folder would find what is not built any more.
  ninja -C "build/$preset" -t cleandead >/dev/null || true
  step "build $preset" nice ninja -C "build/$preset" -j "$jobs" "$target" || return 1
  for need in ${needs[$1]-}; do "need_$need" || return 1; done
}

# Runs the tests of a stage with ctest. Some wait, so there is one process more than cores.
run_tests() { # stage
  local report=$scratch/$1.xml status=0 before=$failed preset test its_passed its_failed
  local -A inputs=()
  local -a known=()
  preset=$(preset_of "$1")
  say "test $1"
  inputs_of_tests "$1" "$preset"
  for test in "${!inputs[@]}"; do
    ! has_passed "$preset/$test" "${inputs[$test]}" || known+=("$test")
  done
  [[ ${#known[@]} -eq 0 ]] || say "${#known[@]} of the tests have passed before"
  run ctest_with_report "$1" "$report" "^($(IFS='|' && echo "${known[*]}"))\$" || status=$?
  : >"$scratch/$1.counts"
  [[ ! -f $report ]] || python3 -B test/results.py "$report" "$scratch/failures" >"$scratch/$1.counts" || status=1
  # ctest without a test succeeds.
  [[ -s $scratch/$1.counts || ${#known[@]} -gt 0 ]] || status=1
  while read -r test its_passed its_failed; do
    passed=$((passed + its_passed))
    failed=$((failed + its_failed))
    [[ $its_failed -ne 0 ]] || keep_result "$preset/$test" "${inputs[$test]-}" "$its_passed"
  done <"$scratch/$1.counts"
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

# A preset that shows the output of its tests begins each of their lines with a number. The signal that ends the tests
# must not end the program that reads what they print meanwhile. ctest ends, and the tests go on without it.
ctest_with_report() { # test preset, report, tests to leave out
  local -a command=(ctest)
  # Kubernetes and benchmarks run as users run them.
  [[ ! $1 =~ ^(unit|tsan)$ ]] || command=($no_randomization ctest)
  "${command[@]}" --preset "$1" -j "$((jobs + 1))" -E "$3" --output-junit "$2" \
    --test-output-size-passed 1000000000 --test-output-size-failed 1000000000 2>&1 |
    (trap '' TERM && sed -uE -e '/^( *Start |test [0-9]+$|[0-9]+: (Test command:|Working Directory:|Environment variables:|Test timeout computed| [A-Z_]+=))/d' \
      -e '/^(UpdateCTest|Constructing|Done constructing|Updating test list|Added 0 tests|Checking test dependency)/d' \
      -e 's/^[0-9]+: //' -e '/^(=== |$)| \.\.\. ok$/d')
}

# If a runner failed without a failed test, for example because it was not built, this counts as one
# failed test.
count_unexplained() { # exit status, failures before
  if [[ $1 -ne 0 && $failed -eq $2 ]]; then
    failed=$((failed + 1))
  fi
}

# --- what stages need -----------------------------------------------------------------------------

# Sets `go`. Go downloads the newer version that a go.mod needs.
need_go() {
  # The download must have ended before a build starts.
  [[ -z $downloads ]] || wait "$downloads" || true
  downloads=
  go=$(bash deploy/install.sh go) || { failed=$((failed + 1)) && return 1; }
  export GOTOOLCHAIN=auto
}

# Sets a variable to what install.sh prints.
install() { # variable, argument of install.sh
  local printed
  printed=$(bash deploy/install.sh "$2") || { failed=$((failed + 1)) && return 1; }
  export "$1=$printed"
}

need_spdx() { install PYTHONPATH spdx; }
need_prometheus() { install MGPU_PROMETHEUS_FOLDER prometheus; }
need_chromium() { install MGPU_CHROMIUM_BINARY chromium; }

# It uses the build of the unit tests.
need_gpu_folder() {
  step "build the folder of the trial" env MGPU_PRESET=asan bash bench/gpu/build.sh build/asan/gpu-trial
}

# What the scripts of bench/ set.
need_runs() { export MGPU_FAILOVER_RUNS=${MGPU_FAILOVER_RUNS:-5}; }
need_soak_length() { export MGPU_SOAK_MINUTES=${MGPU_SOAK_MINUTES:-30} MGPU_SOAK_SEED=${MGPU_SOAK_SEED:-$(date +%s)}; }
need_web_nodes() { export MGPU_WEB_NODES=${MGPU_WEB_NODES:-5000}; }
need_throughput_sizes() {
  [[ -z ${MGPU_WAITS_PENDING-}${MGPU_START_PENDING-} ]] || return 0
  export MGPU_THROUGHPUT_NODES=${MGPU_THROUGHPUT_NODES:-100} MGPU_THROUGHPUT_PAIRS=${MGPU_THROUGHPUT_PAIRS:-1}
}

need_components() {
  local built
  need_go || return 1
  build_once "components-$components_version" "etcd and Kubernetes $components_version" \
    test/cluster/components/{go.mod,go.sum,main.go} || return 1
  export MGPU_COMPONENTS_BINARY=$built/components
  # Another stage may use this program already.
  [[ -z $cluster_tests_built ]] || return 0
  step "build the cluster tests" build_cluster_tests && cluster_tests_built=1
}

need_runtime() {
  local built
  need_go || return 1
  build_once runtime "containerd, runc and network plugins" test/cluster/{runtime,runc}/{go.mod,go.sum} || return 1
  export MGPU_RUNTIME_FOLDER=$built
}

need_helm() {
  local built
  need_go || return 1
  build_once "helm-$helm_version" "helm" test/cluster/helm/{go.mod,go.sum} || return 1
  export MGPU_HELM_BINARY=$built/helm
}

need_kueue() {
  MGPU_KUEUE_FOLDER=$(download_kueue) || { say "failed: download_kueue" && failed=$((failed + 1)) && return 1; }
  export MGPU_KUEUE_FOLDER
}

need_kueue_controller() {
  local built
  build_once kueue "Kueue's controller" test/cluster/kueue/{go.mod,go.sum} || return 1
  export MGPU_KUEUE_BINARY=$built/kueue
}

need_etcd() {
  local built
  build_once etcd "etcdctl and etcdutl" test/cluster/etcd/{go.mod,go.sum} || return 1
  export MGPU_ETCD_TOOLS_FOLDER=$built
}

need_images() {
  export MGPU_IMAGES_FOLDER=$scratch/images
  # Another stage may read them already.
  [[ ! -f $scratch/images/images.json ]] || return 0
  step "build the images" bash deploy/images/build.sh --repository mgpu.test --tag test "$scratch/images" \
    mgpu-extender mgpu-device-plugin mgpu-mps
}

need_kubelets() {
  local kubelet built
  export MGPU_KUBELETS_FOLDER=$scratch/kubelets
  mkdir -p "$MGPU_KUBELETS_FOLDER"
  for kubelet in ${MGPU_KUBELETS:-1.25 1.28 1.31}; do
    build_once "kubelet-$kubelet" "kubelet $kubelet" "test/cluster/kubelets/$kubelet"/go.{mod,sum} || continue
    ln -sfn "$built" "$MGPU_KUBELETS_FOLDER/$kubelet"
  done
}

need_earlier() {
  local built
  build_once "components-$earlier_version" "etcd and Kubernetes $earlier_version" \
    test/cluster/components/{"${earlier_version%.*}".{mod,sum},main.go} || return 1
  export MGPU_EARLIER_COMPONENTS_BINARY=$built/components
}

need_previous() {
  local built previous
  previous=$(cat test/cluster/previous-version)
  build_once "previous-${previous::12}" "mgpu ${previous::12}" test/cluster/previous-version || return 1
  export MGPU_PREVIOUS_FOLDER=$built
  previous=$(cat test/cluster/previous-chart)
  build_once "previous-${previous::12}" "mgpu ${previous::12}" test/cluster/previous-chart || return 1
  export MGPU_PREVIOUS_CHART_FOLDER=$built
}

need_legacy() {
  local built
  build_once legacy "kube-scheduler 1.22" test/cluster/legacy/{go.mod,go.sum,main.go} || return 1
  export MGPU_LEGACY_SCHEDULER_BINARY=$built/legacy
}

# --- programs of Go -------------------------------------------------------------------------------

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

# Of the modules that both use, test/cluster/go.mod has the versions of components/go.mod, and the flags are the same, so that their
# packages are compiled once.
build_cluster_tests() {
  (cd test/cluster && CGO_ENABLED=0 nice "$go" test -c -p "$jobs" "${go_flags[@]}" -o ../../build/cluster.test .)
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
  run_timed "$1" prepare_and_run "$1"
  [[ $failed -ne $before_failed ]] || keep_result "stage/$1" "$2" "$((passed - before_passed))"
}

prepare_and_run() { prepare "$1" && run_tests "$1"; } # stage

stages=()
histories=
while [[ $# -gt 0 ]]; do
  if [[ $1 == --seconds ]]; then
    [[ ${2-} =~ ^[1-9][0-9]{0,5}$ ]] || {
      printf 'run.sh: --seconds: "%s" is not a number of seconds; want 1 to 999999\n' "${2-}" >&2
      exit 2
    }
    export MGPU_FUZZ_SECONDS=$2
    shift
  elif [[ $1 == --histories ]]; then
    [[ ${2-} =~ ^[1-9][0-9]{0,11}$ ]] || {
      printf 'run.sh: --histories: "%s" is not a number of histories; want 1 or more\n' "${2-}" >&2
      exit 2
    }
    export MGPU_HISTORIES=$2
    histories=1
    shift
  elif [[ $1 == --again ]]; then
    again=1
  else
    stages+=("$1")
  fi
  shift
done
[[ ${#stages[@]} -gt 0 ]] || stages=("${default_stages[@]}")
for stage in "${stages[@]}"; do
  [[ $stage =~ ^[a-z-]+$ && -n $(preset_of "$stage") ]] || {
    printf 'run.sh: "%s" is not a stage; the comment at the beginning of test/run.sh lists them\n' "$stage" >&2
    exit 2
  }
done
[[ -z $histories ]] || stages=("${stages[@]/#simulate/histories}")

step "install" bash deploy/install.sh || { echo "0 passed, 1 failed" && exit 1; }
machine=$(hash_of_machine)
export MGPU_SCRATCH_FOLDER=$scratch
for stage in "${stages[@]}"; do
  [[ -z $downloads && ${needs[$stage]-} == *components* ]] || continue
  download_go_modules >/dev/null 2>&1 </dev/null &
  downloads=$!
done
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
  run_timed "prepare-$stage" prepare "$stage"
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
