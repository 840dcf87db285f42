# Keeps the bash of one context: starts shells (bash_shell.bash), one after the other. Argument: the context's folder.
#
# A run that ends its shell (exit, set -e, an interrupt) does not end the context: the shell leaves its state in the
# folder and the next one begins with it. Descriptor 4 brings requests to the shells; descriptor 3 takes "begun" and
# "done <status>" of a run from the shell, "exit <status>" from here when a run ended its shell, and "died <status>"
# when a signal did.
# What bash says of a shell that was killed is not the context's.
exec 5>&2 2>/dev/null
trap : INT
trap '__closing=1' TERM
__scripts=${0%/*}
# On one line, so that the first line of a run is line 1 in what bash says of it.
__loop='source "$1" "$2" "$3"; shift 3; while { __sandbox_next; } 2>/dev/null; do { __sandbox_begin; } 2>/dev/null; eval "$__sandbox_code" 3>&- 4<&-; { __sandbox_done $?; } 2>/dev/null; done'
__turn=1
while [[ ! ${__closing-} ]]; do
  "$BASH" -c "$__loop" bash "$__scripts/bash_shell.bash" "$1" "$__turn" 2>&5 5>&-
  __status=$?
  # An interrupt meant for the run before may end a shell that has not asked for a request yet: start it again.
  [[ -e $1/ready.$__turn ]] || ((__status != 130)) || continue
  if ((__status > 128)) && [[ ! -s $1/state.$__turn ]]; then
    printf 'died %d\n' "$__status" >&3
    exit "$__status"
  fi
  ((__turn++))
  printf 'exit %d\n' "$__status" >&3
done
