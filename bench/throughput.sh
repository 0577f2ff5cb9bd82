#!/usr/bin/env bash
# Measures how many pods a real kube-scheduler binds in a second with mgpu-extender and without any extender,
# with a real etcd and kube-apiserver on the same machine.
#
#   bench/throughput.sh                        100, 1,000 and 5,000 nodes, seven pairs of measurements; takes hours
#   bench/throughput.sh --nodes 1000 --pairs 3
#   bench/throughput.sh --cases cards,none     only these rows: cards, none, cards-tls, null, null-tls, cards-all,
#                                              none-all, full, unplaceable, preempting, binds-1, binds-2, binds-16
#   bench/throughput.sh --profiles FOLDER      also writes CPU profiles of kube-scheduler and kube-apiserver, three
#                                              seconds of each run
#   bench/throughput.sh --against PROGRAM      compares with this mgpu-extender, in the column "without", instead of
#                                              none; the rows null and null-tls do not change
#
# Each row prints the medians without and with the extender, in pods per second, the median of the ratios of the
# pairs, and their least and greatest. The last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail_usage() {
  printf 'throughput.sh: %s\n' "$*" >&2
  exit 2
}

nodes=100,1000,5000
pairs=7
cases=
profiles=
against=
while [[ $# -gt 0 ]]; do
  case $1 in
    --nodes)
      [[ ${2-} =~ ^[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*$ ]] ||
        fail_usage "--nodes: \"${2-}\" is not a list of numbers from 10 to 5000"
      nodes=$2
      ;;
    --pairs)
      [[ ${2-} =~ ^[1-9][0-9]?$ ]] || fail_usage "--pairs: \"${2-}\" is not a number from 1 to 99"
      pairs=$2
      ;;
    --profiles)
      [[ -d ${2-} ]] || fail_usage "--profiles: \"${2-}\" is not a folder"
      profiles=$(realpath "$2")
      ;;
    --against)
      [[ -f ${2-} && -x $2 ]] || fail_usage "--against: \"${2-}\" is not a program"
      against=$(realpath "$2")
      ;;
    --cases)
      [[ ${2-} =~ ^[a-z0-9,-]+$ ]] || fail_usage "--cases: \"${2-}\" is not a list of rows"
      cases=$2
      ;;
    *) fail_usage "\"$1\" is not a flag; want --nodes, --pairs, --cases, --profiles or --against" ;;
  esac
  shift 2
done
MGPU_THROUGHPUT_NODES=$nodes MGPU_THROUGHPUT_PAIRS=$pairs MGPU_THROUGHPUT_CASES=$cases MGPU_THROUGHPUT_PROFILES=$profiles \
  MGPU_THROUGHPUT_AGAINST=$against exec bash test/run.sh throughput
