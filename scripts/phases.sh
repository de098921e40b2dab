# Sourced by scripts/test, scripts/check and .ci/run: runs phases, each with a budget in seconds, and ends with a table of what they took.
# A phase over its budget does not stop the run, it fails it: all that is wrong is known after one run.
#
#   begin "make test" 600          a name and the budget of the whole
#   run_phase build 300 "release build"      runs the function do_build, if it is wanted
#
# `wanted` is a list of phases to run alone; empty: all.
#
# Budgets are for a machine of a certain speed, and machines are shared: what this one is slower at the start (measure_pace) all budgets
# are larger, at most twice. CHECK_PACE=1.5 says it instead of measuring, for machines that are slower by themselves.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)
pace=100  # percent
wanted=()

begin() {
  command_name=$1
  budget_of_all=$2
  phase_title="start"
  notes=""
  table=()
  over=()
  SECONDS=0
  trap 'report_end $?' EXIT
}

# Every core compiles the same piece of text once; kProbeMs is what that took where the budgets were made.
readonly kProbeMs=2000
measure_pace() {
  if [[ -n ${CHECK_PACE:-} ]]; then
    pace=$(awk -v pace="$CHECK_PACE" 'BEGIN { printf "%d", pace * 100 }')
    return
  fi
  command -v g++ >/dev/null || return 0
  local core began=${EPOCHREALTIME/[.,]/} took
  for ((core = 0; core < jobs; ++core)); do
    g++ -std=c++20 -O1 -x c++ -c -o /dev/null - <<<'#include <regex>
      bool found(const std::string& text) { return std::regex_search(text, std::regex("a+b")); }' &
  done
  wait
  took=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
  pace=$((took * 100 / kProbeMs))
  pace=$((pace < 100 ? 100 : pace > 200 ? 200 : pace))
  CHECK_PACE=$(awk -v pace="$pace" 'BEGIN { print pace / 100 }')  # for scripts/run_tests
  export CHECK_PACE
  echo "pace: a fixed piece of work took $took ms; budgets are $pace % of what is written"
}

run_phase() {
  local key=$1 budget=$(($2 * pace / 100)) start=$SECONDS
  if ((${#wanted[@]} > 0)) && [[ " ${wanted[*]} " != *" $key "* ]]; then
    return
  fi
  phase_title=$3
  printf '\n==== [%4d s] %s: %s\n' "$SECONDS" "$command_name" "$phase_title"
  "do_$key"
  note_phase "$phase_title" $((SECONDS - start)) "$budget"
}

# A row of the table: note_phase TITLE SECONDS BUDGET
note_phase() {
  local row
  printf -v row '  %-52s %7d %7d' "$1" "$2" "$3"
  if (($2 > $3)); then
    row+="  over"
    over+=("$1")
  fi
  table+=("$row")
}

# Something could not be done here; the last line says so.
skip() {
  echo "skipped: $1"
  notes+="; skipped: $1"
}

report_end() {
  local status=$1
  if ((status != 0)); then
    printf '\n%s: FAILED in "%s" after %d s\n' "$command_name" "$phase_title" "$SECONDS"
    exit "$status"
  fi
  note_phase "all of $command_name" "$SECONDS" $((budget_of_all * pace / 100))
  printf '\n  %-52s %7s %7s\n' "phase" "seconds" "budget"
  printf '%s\n' "${table[@]}"
  if ((${#over[@]} > 0)); then
    printf '\n%s: FAILED, over budget:' "$command_name"
    printf ' "%s"' "${over[@]}"
    printf '\n'
    exit 1
  fi
  printf '\n%s: all passed in %d s%s\n' "$command_name" "$SECONDS" "$notes"
}

# Configures and builds a preset: build_preset NAME [TARGET…]
build_preset() {
  local preset=$1
  shift
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
