# Keeps the bash of one context: starts shells (bash_shell.bash), one after the other. Argument: the context's folder.
#
# A run that ends its shell (exit, set -e, an interrupt) does not end the context: the shell leaves its state in the
# folder and the next one begins with it. Descriptor 4 brings requests to the shells; descriptor 3 takes "done <status>"
# of a run from the shell, "exit <status>" from here when a run ended its shell, "died <status>" when a signal did.
# What bash says of a shell that was killed is not the context's.
exec 5>&2 2>/dev/null
trap : INT
trap '__closing=1' TERM
__scripts=${0%/*}
# On one line, so that the first line of a run is line 1 in what bash says of it.
__loop='source "$1" "$2"; shift 2; while { __sandbox_next; } 2>/dev/null; do { eval "$__sandbox_before"; } 2>/dev/null; eval "$__sandbox_code" 3>&- 4<&-; { __sandbox_done $?; } 2>/dev/null; done'
while [[ ! ${__closing-} ]]; do
  "$BASH" -c "$__loop" bash "$__scripts/bash_shell.bash" "$1" 2>&5 5>&-
  __status=$?
  if ((__status > 128)) && [[ ! -s $1/state ]]; then
    printf 'died %d\n' "$__status" >&3
    exit "$__status"
  fi
  printf 'exit %d\n' "$__status" >&3
done
