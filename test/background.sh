# Stages that run in the background, while others compile and compute. run.sh reads this file; it has `say`, `end_child`,
# `run_tests`, `keep_result`, the folder `scratch` and the counts `passed`, `failed` and `times`.
#
# A stage writes its counts as its last act, and one that has written none has failed. The shell's `wait` cannot say
# which: it forgets how a process ended when another child gets the same process ID, as happens in a run that starts more
# processes than there are IDs. Then it prints "wait: pid N is not a child of this shell", or returns the status of the
# other child.

background=()  # process IDs

# Starts a stage that is prepared.
begin_in_background() { # stage
  # It may be read before the process has begun.
  : >"$scratch/$1.output"
  in_background "$1" >>"$scratch/$1.output" 2>&1 </dev/null &
  background+=($!)
}

in_background() { # stage
  trap end_child EXIT
  trap 'exit 143' TERM
  background=() times=
  passed=0
  failed=0
  run_timed "$1" run_tests "$1"
  printf '%s %s%s\n' "$passed" "$failed" "$times" >"$scratch/$1.result.new"
  mv "$scratch/$1.result.new" "$scratch/$1.result"
}

# Prints the output of a stage until it ends, and adds its result.
end_in_background() { # stage, process ID, inputs
  local its_passed=0 its_failed=1 its_times=
  say "stage $1, started in the background"
  if [[ -f $scratch/$1.result ]]; then
    cat "$scratch/$1.output"
  else
    tail -n +1 -f --pid="$2" "$scratch/$1.output"
  fi
  if [[ -f $scratch/$1.result ]]; then
    read -r its_passed its_failed its_times <"$scratch/$1.result"
  else
    say "failed: stage $1 ended without a result"
  fi
  passed=$((passed + its_passed))
  failed=$((failed + its_failed))
  times+=" $its_times"
  [[ $its_failed -ne 0 ]] || keep_result "stage/$1" "$3" "$its_passed"
}

run_timed() { # name, command
  local begun=$SECONDS
  "${@:2}" || true
  times+=" $1 $((SECONDS - begun))"
}
