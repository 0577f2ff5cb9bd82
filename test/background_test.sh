#!/usr/bin/env bash
# Tests background.sh: a stage in the background that fails, or that ends without a result, fails the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-test.XXXXXX")
# The shell reports processes that were killed; this matters only if a test fails.
trap '[[ $? -eq 0 ]] || cat "$scratch/errors"; rm -rf "$scratch"' EXIT
exec 2>"$scratch/errors"
kept=

say() { printf '%s\n' "$*"; }
end_child() { :; }
keep_result() { kept+="$1 $2 $3;"; }

source test/background.sh

run_tests() { "stage_$1"; }
stage_good() {
  echo "output of good"
  passed=$((passed + 3))
}
stage_bad() {
  echo "output of bad"
  passed=$((passed + 2))
  failed=$((failed + 4))
  return 1
}
stage_killed() {
  passed=$((passed + 5))
  kill -KILL "$BASHPID"
}

# Runs the stages and checks the counts, what was kept, and that the output has a text.
expect() { # counts, kept, text, stages
  local counts=$1 keeps=$2 text=$3 i
  shift 3
  passed=0 failed=0 times='' kept='' background=()
  for stage in "$@"; do begin_in_background "$stage"; done
  for i in "${!background[@]}"; do end_in_background "${@:i+1:1}" "${background[i]}" inputs; done >"$scratch/printed"
  [[ "$passed $failed" == "$counts" && $kept == "$keeps" ]] && grep -qF "$text" "$scratch/printed" && return 0
  printf 'stages %s: expected %s, kept "%s" and the text "%s"; found %s passed, %s failed, kept "%s" and the output\n%s\n' \
    "$*" "$counts" "$keeps" "$text" "$passed" "$failed" "$kept" "$(<"$scratch/printed")"
  exit 1
}

expect "3 0" "stage/good inputs 3;" "output of good" good
expect "2 4" "" "output of bad" bad
expect "0 1" "" "stage killed ended without a result" killed
rm "$scratch"/*.result
expect "5 5" "stage/good inputs 3;" "output of bad" good bad killed
