# shellcheck shell=bash
# For the scripts beside this one: MPS for the time of the run, and faults that come and go.

started_mps=
start_mps() {
  command -v nvidia-cuda-mps-control >/dev/null || return 0
  if ! pgrep -x nvidia-cuda-mps >/dev/null 2>&1; then
    nvidia-cuda-mps-control -d && started_mps=yes
  fi
  return 0
}
stop_mps() {
  if [ -n "$started_mps" ]; then echo quit | nvidia-cuda-mps-control >/dev/null 2>&1; fi
  return 0
}

# faults COUNT RANKS NICS EVERY_MS: NICs that fail in turn, a different way each time, and return. NIC 0 of every rank stays.
faults() {
  local kinds=(down cable blackhole reset) text="" i
  for ((i = 0; i < $1; i++)); do
    local kind=${kinds[i % 4]} lasting=' for=600ms'
    if [ "$kind" = reset ]; then lasting=; fi
    text+="${text:+;}at=$((1000 + i * $4))ms server=$((i % $2)) nic=$((1 + i % ($3 - 1))) kind=$kind$lasting"
  done
  echo "$text"
}
