# Results of tests that would only be repeated. run.sh reads this file.
#
# A test program or a whole stage that has passed is not run again in the same checkout while its inputs are the same:
# the programs that it consists of, the files that its tests can read, the packages and the kernel of the system, the
# user and his rights, and the variables MGPU_* and GTEST_*. So a second run takes a few minutes, and a run after a
# change repeats what the change can affect. The results are in build/passed, so that a new clone runs everything. So
# does run.sh --again.

readonly results=build/passed
# Files that a program has become part of, pages but the one that a test reads, and tests of another program.
readonly not_read_by_programs='\.(cc|h|go)$|/[^/]*\.md$|^[A-QS-Z][^/]*\.md$|^test/cluster/'
# The tests of a cluster read some of the pages in deploy, those of a kubelet and the browser none.
# kube_conformance_test is in test/common.
readonly not_read_by_cluster='^test/(extender|plugin|programs)/.*_test\.cc$|^[A-Z]+\.md$|^bench/(gpu|parts|plot|plots)/'\
'|^test/(bench|fuzz|simulation|tree)/'
readonly not_read_by_node="\\.md\$|$not_read_by_cluster"
readonly not_read_by_gpu='_test\.cc$|^deploy/|^test/(cluster|fuzz|golden|simulation|tree)/'
readonly not_read_by_images='^$'

again=
reused=0
machine=  # hash_of_machine, after packages are installed and before the stages set variables

# Prints the hash of the contents of all files of the checkout but those whose names match. Fails outside a checkout.
hash_of_files() { # regular expression
  local files
  files=$(git ls-files --cached --others --exclude-standard 2>/dev/null | grep -vE "$1") || return 1
  xargs -d '\n' sha256sum <<<"$files" 2>/dev/null | sha256sum | cut -c 1-32
}

# Prints the hash of what any test can depend on besides files of the checkout.
hash_of_machine() {
  {
    id -u
    uname -r
    grep '^Cap' /proc/self/status
    stat -fc %T /sys/fs/cgroup
    # Without these namespaces tests are skipped.
    [[ $EUID -ne 0 ]] || bash test/cluster/namespaces.sh true && echo namespaces
    cat /var/lib/dpkg/status
    env | sed -nE '/^(MGPU|GTEST)_/p' | sort
  } 2>/dev/null | sha256sum | cut -c 1-32
}

# Prints the sizes and times of a test program and of the programs and libraries that its tests start or load.
inputs_of_program() { # preset, name
  local others
  others=$(ninja -C "build/$1" -t inputs "test/$2" | grep -vE '^/|^\.\./|\.(o|a|cc|h)$') || true
  # Not all of them are files.
  (cd "build/$1" && xargs -d '\n' stat -c '%n %s %.9Y' <<<"test/$2"$'\n'"$others" 2>/dev/null || true) |
    sha256sum | cut -c 1-32
}

# Prints the inputs of a stage that runs as a whole; nothing if it always runs.
inputs_of_stage() { # stage
  local files=not_read_by_${1//-/_}
  [[ $1 != install && $1 != web ]] || files=not_read_by_$([[ $1 == web ]] && echo node || echo cluster)
  [[ -n ${!files-} ]] || return 0
  files=$(hash_of_files "${!files}") && printf '%s %s\n' "$files" "$machine"
}

# True if a test has passed with these inputs. Adds its number to `passed` and `reused`.
has_passed() { # name, inputs
  local before number
  [[ -z $again && -n $2 && -f $results/$1 ]] || return 1
  { read -r before && read -r number; } <"$results/$1" || return 1
  [[ $before == "$2" && $number =~ ^[0-9]+$ ]] || return 1
  passed=$((passed + number))
  reused=$((reused + number))
}

# Records that all tests have passed with these inputs.
keep_result() { # name, inputs, number of tests
  [[ -n $2 ]] || return 0
  mkdir -p "$(dirname "$results/$1")" && printf '%s\n%s\n' "$2" "$3" >"$results/$1.new" && mv "$results/$1.new" "$results/$1"
}
