# Sourced by each shell of a bash context (see bash_kernel.bash). Arguments: the context's folder, and how many shells
# this one is: each leaves its state in state.<turn> and begins with the one before.

# Interrupts are for the code alone: one that ended the shell while it reads would leave half a request behind.
trap '' INT
# Read-only, so that the state of the shell before cannot put its own in their place.
declare -r __sandbox_folder=$1 __sandbox_turn=$2

# A request: three lengths in bytes on a line, then the code before the run, of the run, and after it.
__sandbox_next() {
  local lengths
  if ! IFS=' ' read -r -u 4 -a lengths; then
    # The agent is gone, and with it everyone who could ask.
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
  # Bash's own variables cannot be assigned: hide those errors.
  source "$__sandbox_folder/state.$((__sandbox_turn - 1))" 2>/dev/null
  : >|"$__sandbox_folder/state.$((__sandbox_turn - 1))"
fi
__sandbox_after=
trap __sandbox_leave EXIT
: >|"$__sandbox_folder/ready.$__sandbox_turn"
if [[ -s $__sandbox_folder/options.$((__sandbox_turn - 1)) ]]; then
  source "$__sandbox_folder/options.$((__sandbox_turn - 1))" 2>/dev/null
fi
