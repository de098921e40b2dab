#!/bin/bash
# nccl-tests over NCCL's sockets and over the plugin, in turn, several rounds: medians and the sockets' time over the plugin's. Where
# nccl_tests.sh goes through everything once, with checks, this one measures: many iterations, no checks, few sizes.
#
#   ratios.sh NCCL_TESTS_BUILD_DIR PLUGIN_DIR
#
#   RANKS="2 4"  NICS=2  MIN=64K MAX=4M FACTOR=4  ITERATIONS=150  ROUNDS=3  LIMIT=120 (seconds a run)
#   COLLECTIVES="all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv gather scatter"
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ]; then
  sed -n '2,8p' "$0"
  exit 2
fi
tests=$(cd "$1" && pwd) plugin=$(cd "$2" && pwd)
. "$here/common.sh"
trap stop_mps EXIT
start_mps

run() {  # run TRANSPORT RANKS COLLECTIVE: lines of transport, collective, ranks, bytes, microseconds
  timeout "${LIMIT:-120}" mpirun --allow-run-as-root --oversubscribe --bind-to none -np "$2" \
    bash "$here/rank.sh" "$1" "$plugin" "${NICS:-2}" "$tests/$3_perf" -b "${MIN:-64K}" -e "${MAX:-4M}" -f "${FACTOR:-4}" \
    -n "${ITERATIONS:-150}" -w 20 -g 1 -c 0 2>/dev/null |
    awk -v who="$1 $3 $2" '$1 ~ /^[0-9]+$/ && NF >= 10 { print who, $1, $6; print who, $1, $10 }'
}

for ranks in ${RANKS:-2 4}; do
  for collective in ${COLLECTIVES:-all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv gather scatter}; do
    for ((round = 0; round < ${ROUNDS:-3}; round++)); do
      for transport in socket r2ccl; do run "$transport" "$ranks" "$collective"; done
    done
  done
done | python3 "$here/ratios.py"
