import { type CliCommand, print, UsageError } from './command.ts';

/** Scripts that complete the names of commands, of their options, and of sandboxes. */
export function completion(commands: () => readonly CliCommand[]): CliCommand {
  return {
    name: 'completion',
    maxWords: 1,
    usage: 'bash|zsh|fish',
    summary: 'print a script for the shell: source <(sandbox-platform completion bash)',
    async run({ words }) {
      const write = { bash, zsh, fish }[words[0] ?? ''];
      if (!write) throw new UsageError('Give a shell: bash, zsh or fish');
      print(write(commands()));
      return 0;
    },
  };
}

const listOptions = (command: CliCommand) => Object.keys(command.options ?? {}).map((name) => `--${name}`);
const listIds = "sandbox-platform ls 2>/dev/null | awk 'NR > 1 { print $1 }'";

function bash(commands: readonly CliCommand[]): string {
  const cases = commands.map(
    (each) =>
      `    ${each.name}) options="${listOptions(each).join(' ')}"${each.words ? ` words="${each.words.join(' ')}"` : ''} ;;`,
  );
  return `_sandbox_platform() {
  local word="\${COMP_WORDS[COMP_CWORD]}" options="" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(' ')}" -- "$word"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
  esac
  if [ -n "$words" ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    return
  fi
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$options --json" -- "$word")) ;;
    sbx*|"") COMPREPLY=($(compgen -W "$(${listIds})" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}
complete -o default -F _sandbox_platform sandbox-platform`;
}

function zsh(commands: readonly CliCommand[]): string {
  return `autoload -U +X bashcompinit && bashcompinit\n${bash(commands)}`;
}

function fish(commands: readonly CliCommand[]): string {
  const names = commands.map(({ name }) => name).join(' ');
  const lines = commands.flatMap((each) => [
    `complete -c sandbox-platform -n "not __fish_seen_subcommand_from ${names}" -f -a ${each.name} -d '${each.summary.replaceAll("'", '’')}'`,
    ...(each.words ?? []).map(
      (word) => `complete -c sandbox-platform -n "__fish_seen_subcommand_from ${each.name}" -f -a ${word}`,
    ),
    ...listOptions(each).map(
      (option) => `complete -c sandbox-platform -n "__fish_seen_subcommand_from ${each.name}" -l ${option.slice(2)}`,
    ),
  ]);
  lines.push(`complete -c sandbox-platform -n "__fish_seen_subcommand_from ${names}" -l json`);
  return `${lines.join('\n')}\ncomplete -c sandbox-platform -n "__fish_seen_subcommand_from ${names}" -a "(${listIds.replace('$1', '\\$1')})"`;
}
