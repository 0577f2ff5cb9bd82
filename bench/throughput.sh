#!/usr/bin/env bash
# Measures how many pods a real kube-scheduler binds in a second with mgpu-extender and without any extender,
# with a real etcd and kube-apiserver on the same machine.
#
#   bench/throughput.sh                        100, 1,000 and 5,000 nodes, seven pairs of measurements; takes hours
#   bench/throughput.sh --nodes 1000 --pairs 3
#   bench/throughput.sh --cases cards,none     only these rows: cards, none, cards-tls, null, null-tls, cards-all,
#                                              none-all, full, unplaceable, preempting, by-card, gangs-8,
#                                              gangs-64, null-gangs-8, null-gangs-64, binds-1, binds-2, binds-16
#   bench/throughput.sh --profiles FOLDER      also writes CPU profiles of kube-scheduler and kube-apiserver, three
#                                              seconds of each run
#   bench/throughput.sh --against PROGRAM      compares with this mgpu-extender, in the column "without", instead of
#                                              none; those whose name begins with null do not change
#
# Each row prints the medians without and with the extender, in pods per second, the median of the ratios of the
# pairs, and their least and greatest. The last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. bench/flags.sh

nodes=100,1000,5000 pairs=7 cases='' profiles='' against=''
read_flags '
  nodes ^[1-9][0-9]{0,3}(,[1-9][0-9]{0,3})*$ a list of numbers from 10 to 5000
  pairs ^[1-9][0-9]?$ a number from 1 to 99
  cases ^[a-z0-9,-]+$ a list of rows
  profiles . a folder
  against . a program' "$@"
[[ -z $profiles || -d $profiles ]] || fail_usage "--profiles: \"$profiles\" is not a folder"
[[ -z $against || (-f $against && -x $against) ]] || fail_usage "--against: \"$against\" is not a program"
MGPU_THROUGHPUT_NODES=$nodes MGPU_THROUGHPUT_PAIRS=$pairs MGPU_THROUGHPUT_CASES=$cases \
  MGPU_THROUGHPUT_PROFILES=${profiles:+$(realpath "$profiles")} MGPU_THROUGHPUT_AGAINST=${against:+$(realpath "$against")} \
  exec bash test/run.sh throughput
