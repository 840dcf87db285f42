# Maintains the bash of one context: starts shells (bash_shell.bash), one after the other. Argument: the context's
# folder.
#
# An execution that ends its shell (exit, set -e, an interrupt) does not end the context: the shell stores its state in the
# folder, and the next shell loads it. Descriptor 4 carries requests to the shells. Descriptor 3 carries replies:
# "begun" and "done <status>" of an execution from the shell; from this script "exit <status>" when an execution ended its shell, and
# "died <status>" when a signal did. Bash's messages about a killed shell are not output of the context.
exec 5>&2 2>/dev/null
trap : INT
trap '__closing=1' TERM
__scripts=${0%/*}
# The loop is one line, so that the first line of an execution is line 1 in bash's messages.
__loop='source "$1" "$2" "$3"; shift 3; while { __sandbox_next; } 2>/dev/null; do { __sandbox_begin; } 2>/dev/null; eval "$__sandbox_code" 3>&- 4<&-; { __sandbox_done $?; } 2>/dev/null; done'
__turn=1
while [[ ! ${__closing-} ]]; do
  "$BASH" -c "$__loop" bash "$__scripts/bash_shell.bash" "$1" "$__turn" 2>&5 5>&-
  __status=$?
  # An interrupt for the previous execution may end a shell that has not read a request yet: start it again.
  [[ -e $1/ready.$__turn ]] || ((__status != 130)) || continue
  if ((__status > 128)) && [[ ! -s $1/state.$__turn ]]; then
    printf 'died %d\n' "$__status" >&3
    exit "$__status"
  fi
  ((__turn++))
  printf 'exit %d\n' "$__status" >&3
done
