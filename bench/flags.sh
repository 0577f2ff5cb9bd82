# Sourced by the scripts of this folder that run a stage of test/run.sh with their flags.

fail_usage() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 2
}

# Reads flags "--NAME VALUE" into variables of these names, which have their defaults before. The table has a line for each
# flag: its name, the pattern of its value (or - for a flag without a value, which becomes 1), and what the value is.
read_flags() { # table, arguments
  local table=$1 name pattern expected
  shift
  while [[ $# -gt 0 ]]; do
    read -r name pattern expected < <(awk -v flag="$1" '"--" $1 == flag' <<<"$table") ||
      fail_usage "\"$1\" is not a flag; want $(awk 'NF {printf "%s--%s", comma, $1; comma = ", "}' <<<"$table")"
    if [[ $pattern == - ]]; then
      printf -v "${name//-/_}" 1
      shift
      continue
    fi
    [[ ${2-} =~ $pattern ]] || fail_usage "$1: \"${2-}\" is not $expected"
    printf -v "$name" %s "$2"
    shift 2
  done
}
