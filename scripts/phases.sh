# Sourced by scripts/test, scripts/check and .ci/run: runs phases, each with a budget in seconds, and ends with a table of what they took.
# A phase over its budget does not stop the run, it fails it: all that is wrong is known after one run.
#
#   begin "make test" 600          a name and the budget of the whole
#   run_phase build 300 "release build"      runs the function do_build, if it is wanted
#
# `wanted` is a list of phases to run alone; empty: all. R2CCL_PACE=2 (a whole number) doubles all budgets, for slower machines.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)
pace=${R2CCL_PACE:-1}
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

run_phase() {
  local key=$1 budget=$(($2 * pace)) start=$SECONDS
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
  note_phase "all of $command_name" "$SECONDS" $((budget_of_all * pace))
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
