#!/usr/bin/env bash
# Runs each fuzzer for MGPU_FUZZ_SECONDS, or a minute: run.sh BUILD, for ctest. The inputs that reach new code are kept in
# BUILD/fuzzing for the next run. The last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export build=$1 seconds=${MGPU_FUZZ_SECONDS:-60}

# Prints one line, and the end of the output if the fuzzer has failed.
fuzz_one() { # a line of fuzzers.txt: fuzzer, bytes of the longest input, dictionary, seeds
  local name=$1 dictionary=$3 seeds=$4 folder=$build/fuzzing/$1 result=passed
  local -a arguments=("-max_total_time=$seconds" "-max_len=$2" -timeout=10 -rss_limit_mb=2048
    -print_final_stats=1 "-artifact_prefix=$folder/")
  mkdir -p "$folder/corpus"
  [[ $dictionary == - ]] || arguments+=("-dict=dictionaries/$dictionary.dict")
  arguments+=("$folder/corpus" "corpus/$name")
  [[ $seeds == - ]] || arguments+=("../../$seeds")
  nice "$build/test/fuzz/fuzz_$name" "${arguments[@]}" >"$folder/log" 2>&1 </dev/null || result=failed
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

mkdir -p "$build/fuzzing"
status=0
xargs -P "$(nproc)" -L 1 bash -c 'fuzz_one "$@"' fuzz_one <fuzzers.txt | tee "$build/fuzzing/results" || status=$?
failed=$(grep -c ': failed, ' "$build/fuzzing/results" || true)
echo "$(grep -c ': passed, ' "$build/fuzzing/results" || true) passed, $failed failed"
[[ $failed -eq 0 && $status -eq 0 ]]
