# Sourced by each shell of a bash context (see bash_kernel.bash). Argument: the context's folder.
__sandbox_folder=$1

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

__sandbox_done() {
  eval "$__sandbox_after"
  printf 'done %d\n' "$1" >&3
}

__sandbox_leave() {
  {
    __sandbox_options=$(set +o)
    set +eux
    eval "$__sandbox_after"
    {
      shopt -p
      declare -f
      alias -p
      declare -p
      printf 'cd %q\n%s\n' "$PWD" "$__sandbox_options"
    } >|"$__sandbox_folder/state"
  } 2>/dev/null
}

if [[ -s $__sandbox_folder/state ]]; then
  # Variables of bash itself cannot be assigned: those complaints are nobody's business.
  source "$__sandbox_folder/state" 2>/dev/null
fi
{ : >|"$__sandbox_folder/state"; } 2>/dev/null
trap __sandbox_leave EXIT
