#!/usr/bin/env bash
# Runs histories of the simulated cluster: run.sh PROGRAM, for ctest. Those of seeds.txt come first, and new ones each day
# follow for a minute, or at least MGPU_HISTORIES. The last line is "N passed, N failed"; each process is one test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

program=$1
jobs=$(nproc)
limit=(--time 60s)
[[ -z ${MGPU_HISTORIES-} ]] || limit=(--time 14400m --histories "$(((MGPU_HISTORIES + jobs - 1) / jobs))")
# The first seed of a day. Each process adds its number to it, and the number of processes from one history to the next.
seed=$(date -u +%Y%m%d)000000
processes=()
passed=0 failed=0

count() { if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }

echo "new histories begin with seed $seed"
count "$program" --seeds-file seeds.txt --histories 1
for ((i = 0; i < jobs; i++)); do
  "$program" --first-seed "$((seed + i))" --step "$jobs" "${limit[@]}" &
  processes+=($!)
done
for process in "${processes[@]}"; do count wait "$process"; done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
