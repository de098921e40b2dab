#!/bin/bash
# PyTorch data-parallel training on one GPU over NICs that `r2ccl lab` has shaped (root): NCCL's sockets and the plugin, whole; with a NIC
# that is gone from the start, beside what the rates say; and with a cable that is pulled in the middle.
#
#   lab_ddp.sh PLUGIN_DIR R2CCL_TOOL [RESULTS_DIR]
#
#   SERVERS=4  NICS=4  RATE=1gbit  STEPS=100  WIDTH=2048  PULL=15s  LIMIT=90 (seconds a run)  PYTHON=python3
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ]; then
  sed -n '2,8p' "$0"
  exit 2
fi
plugin=$(cd "$1" && pwd) tool=$2 results=${3:-results}
. "$here/common.sh"
mkdir -p "$results"
trap stop_mps EXIT
start_mps

run() {  # run LABEL TRANSPORT FAULT
  local file="$results/lab.$1" fault=()
  if [ -n "$3" ]; then fault=(--fault "$3"); fi
  timeout "${LIMIT:-90}" "$tool" lab run --name "gpu-$1" --servers "${SERVERS:-4}" --nics "${NICS:-4}" --rate "${RATE:-1gbit}" "${fault[@]}" -- \
    bash "$here/lab_rank.sh" "$2" "$plugin" "${PYTHON:-python3}" "$here/ddp.py" --steps "${STEPS:-100}" --width "${WIDTH:-2048}" \
    --out "$file.losses" >"$file" 2>&1
  local code=$?
  case $code in
    0) printf '%-16s %s\n' "$1" "$(grep steps: "$file")" ;;
    124) printf '%-16s hangs: no end within %s s\n' "$1" "${LIMIT:-90}" ;;
    *) printf '%-16s ended with %s; see %s\n' "$1" "$code" "$file" ;;
  esac
}

pull="at=${PULL:-15s} server=1 nic=0 kind=cable"
run plugin r2ccl ''
run plugin-without r2ccl 'at=0s server=1 nic=0 kind=cable'
run plugin-pulled r2ccl "$pull"
run socket socket ''
run socket-pulled socket "$pull"
for label in plugin-without plugin-pulled; do
  if cmp -s "$results/lab.plugin.losses" "$results/lab.$label.losses"; then
    echo "losses of plugin and $label: the same, bit for bit"
  else
    echo "losses of plugin and $label: DIFFERENT"
  fi
done
