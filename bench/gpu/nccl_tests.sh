#!/bin/bash
# nccl-tests over NCCL's sockets, over the plugin, and over the plugin with NICs that fail and return. One GPU, several ranks.
#
#   nccl_tests.sh NCCL_TESTS_BUILD_DIR PLUGIN_DIR [RESULTS_DIR]
#
#   RANKS="2 4"  NICS=2  MIN=8 MAX=256M FACTOR=2  ITERATIONS=20  LIMIT=300 (seconds a run)
#   COLLECTIVES="all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv gather scatter"
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ]; then
  sed -n '2,8p' "$0"
  exit 2
fi
tests=$(cd "$1" && pwd) plugin=$(cd "$2" && pwd) results=${3:-results}
collectives=${COLLECTIVES:-all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv gather scatter}
nics=${NICS:-2}
. "$here/common.sh"
mkdir -p "$results"
trap stop_mps EXIT
start_mps

run() {  # run LABEL TRANSPORT RANKS COLLECTIVE
  local file="$results/$4.$3.$1"
  R2CCL_FAULT=${fault:-} timeout "${LIMIT:-300}" mpirun --allow-run-as-root --oversubscribe --bind-to none -x R2CCL_FAULT -np "$3" \
    bash "$here/rank.sh" "$2" "$plugin" "$nics" "$tests/$4_perf" -b "${MIN:-8}" -e "${MAX:-256M}" -f "${FACTOR:-2}" \
    -n "${ITERATIONS:-20}" -w 5 -g 1 -c 1 >"$file" 2>"$file.err"
  local code=$?
  if [ $code -ne 0 ]; then echo "$4, $3 ranks, $1: ended with $code; see $file.err" | tee -a "$file"; fi
}

for ranks in ${RANKS:-2 4}; do
  for collective in $collectives; do
    if [ ! -x "$tests/${collective}_perf" ]; then
      echo "$collective: no ${collective}_perf in $tests"
      continue
    fi
    fault='' run socket socket "$ranks" "$collective"
    fault='' run plugin r2ccl "$ranks" "$collective"
    fault=$(faults 60 "$ranks" "$nics" 900) run faults r2ccl "$ranks" "$collective"
    python3 "$here/table.py" "$collective" "$ranks" "$results/$collective.$ranks".{socket,plugin,faults}
  done
done
