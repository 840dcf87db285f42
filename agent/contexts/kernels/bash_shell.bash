# Sourced by each shell of a bash context (see bash_kernel.bash). Arguments: the context's folder, and the number of
# this shell. Each shell stores its state in state.<turn> and loads the state of the previous one.

# Interrupts are only for the code. An interrupt that ended the shell during a read would leave half a request behind.
trap '' INT
# Read-only, so that the loaded state of the previous shell cannot replace them.
declare -r __sandbox_folder=$1 __sandbox_turn=$2

# Reads a request: three lengths in bytes on a line, then the code before the execution, of the execution, and after it.
__sandbox_next() {
  local lengths
  if ! IFS=' ' read -r -u 4 -a lengths; then
    # The agent has ended, so there will be no more requests.
    trap - EXIT
    kill -KILL 0
  fi
  LC_ALL=C read -r -u 4 -N "${lengths[0]}" __sandbox_before
  LC_ALL=C read -r -u 4 -N "${lengths[1]}" __sandbox_code
  LC_ALL=C read -r -u 4 -N "${lengths[2]}" __sandbox_after
}

__sandbox_begin() {
  eval "$__sandbox_before"
  trap - INT
  printf 'begun\n' >&3
}

__sandbox_done() {
  trap '' INT
  eval "$__sandbox_after"
  printf 'done %d\n' "$1" >&3
}

__sandbox_leave() {
  trap '' INT
  {
    set +o >|"$__sandbox_folder/options.$__sandbox_turn"
    set +eux
    eval "$__sandbox_after"
    {
      shopt -p
      declare -f
      alias -p
      declare -p
      printf 'cd %q\n' "$PWD"
    } >|"$__sandbox_folder/state.$__sandbox_turn"
  } 2>/dev/null
}

if [[ -s $__sandbox_folder/state.$((__sandbox_turn - 1)) ]]; then
  # Hide the errors of bash's own variables, which cannot be assigned.
  source "$__sandbox_folder/state.$((__sandbox_turn - 1))" 2>/dev/null
  : >|"$__sandbox_folder/state.$((__sandbox_turn - 1))"
fi
__sandbox_after=
trap __sandbox_leave EXIT
: >|"$__sandbox_folder/ready.$__sandbox_turn"
if [[ -s $__sandbox_folder/options.$((__sandbox_turn - 1)) ]]; then
  source "$__sandbox_folder/options.$((__sandbox_turn - 1))" 2>/dev/null
fi
