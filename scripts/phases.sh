# Sourced by scripts/test and scripts/check: one line before each phase with the time so far, one line at the end, and on
# failure the phase that failed.
#
#   begin "make test"; phase "build"; …; finish

cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)

begin() {
  command_name=$1
  phase_name="start"
  notes=""
  SECONDS=0
  trap 'report_end $?' EXIT
}

phase() {
  phase_name=$1
  printf '\n==== [%4d s] %s: %s\n' "$SECONDS" "$command_name" "$phase_name"
}

# Something could not be done here; the last line says so.
skip() {
  echo "skipped: $1"
  notes+="; skipped: $1"
}

report_end() {
  if (($1 == 0)); then
    printf '\n%s: all passed in %d s%s\n' "$command_name" "$SECONDS" "$notes"
  else
    printf '\n%s: FAILED in "%s" after %d s\n' "$command_name" "$phase_name" "$SECONDS"
  fi
}

# Configures and builds a preset: build_preset NAME [TARGET…]
build_preset() {
  local preset=$1
  shift
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
