#!/bin/bash
# PyTorch data-parallel training on one GPU: NCCL's sockets, the plugin, the plugin with three NIC failures, and a captured CUDA graph that
# is replayed through them. Losses with and without failures must be the same, bit for bit. (Those over sockets need not: NCCL may choose
# another algorithm there.)
#
#   ddp.sh PLUGIN_DIR [RESULTS_DIR]
#
#   RANKS=4  NICS=3  STEPS=200  WIDTH=1024  LIMIT=300 (seconds a run)  PYTHON=python3
#   FAULT="…"  as R2CCL_FAULT has it; server numbers are ranks
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ]; then
  sed -n '2,9p' "$0"
  exit 2
fi
plugin=$(cd "$1" && pwd) results=${2:-results}
ranks=${RANKS:-4} nics=${NICS:-3}
fault=${FAULT:-at=500ms server=0 nic=1 kind=down;at=1s server=$((ranks - 1)) nic=2 kind=cable for=1s;at=1500ms server=1 nic=0 kind=blackhole for=1s}
. "$here/common.sh"
mkdir -p "$results"
trap stop_mps EXIT
start_mps
port=$((20000 + RANDOM % 20000))

run() {  # run LABEL TRANSPORT FAULT ARGUMENTS...
  local label=$1 transport=$2 fault_text=$3 rank jobs=() code=0
  shift 3
  port=$((port + 1))
  for ((rank = 0; rank < ranks; rank++)); do
    R2CCL_FAULT=$fault_text RANK=$rank WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout "${LIMIT:-300}" \
      bash "$here/rank.sh" "$transport" "$plugin" "$nics" "${PYTHON:-python3}" "$here/ddp.py" --steps "${STEPS:-200}" \
      --width "${WIDTH:-1024}" --out "$results/ddp.$label.losses" "$@" >"$results/ddp.$label.$rank" 2>&1 &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || code=$?; done
  if [ $code -eq 0 ]; then
    printf '%-14s %s\n' "$label" "$(grep steps: "$results/ddp.$label.0")"
  else
    printf '%-14s ended with %s; see %s\n' "$label" "$code" "$results/ddp.$label.*"
  fi
}

same() {  # same LABEL LABEL
  if cmp -s "$results/ddp.$1.losses" "$results/ddp.$2.losses"; then
    echo "losses of $1 and $2: the same, bit for bit"
  else
    echo "losses of $1 and $2: DIFFERENT"
  fi
}

rm -f "$results"/ddp.*.losses
run socket socket ''
run plugin r2ccl ''
run faults r2ccl "$fault"
run graph r2ccl "$fault" --graph
same plugin faults
grep -hE 'Path down|NIC .* \(server' "$results"/ddp.faults.* | head -20
