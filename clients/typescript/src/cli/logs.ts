import { type CliCommand, getSandbox, print, printJson, printOutput, table } from './command.ts';

export const logs: CliCommand = {
  name: 'logs',
  maxWords: 2,
  usage: 'SANDBOX [PROCESS]',
  summary:
    'follow the output of a process (pid or tag); without a process, list the processes, or show why the sandbox failed',
  async run(invocation) {
    const { words, json } = invocation;
    const sandbox = await getSandbox(invocation);
    const [, named] = words;
    if (named === undefined) {
      const { status, failure } = await sandbox.info();
      if (status === 'failed') {
        if (json) printJson(failure);
        else print(failure ? `${failure.message}\n${failure.command_output}` : 'The sandbox failed without output');
        return 0;
      }
      const running = await sandbox.commands.list();
      if (json) printJson(running);
      else {
        const rows = running.map(({ pid, tag, command }) => [`${pid}`, tag ?? '', command.join(' ').slice(0, 120)]);
        print(table([['PID', 'TAG', 'COMMAND'], ...rows]));
      }
      return 0;
    }
    const target = /^\d+$/.test(named) ? Number(named) : { tag: named };
    const handle = await sandbox.commands.connect(target, {
      ...(!json && { onStdout: printOutput('stdout'), onStderr: printOutput('stderr') }),
    });
    const { exitCode, stdout, stderr, truncated } = await handle.wait();
    if (json) printJson({ exit_code: exitCode, stdout, stderr, truncated });
    return exitCode;
  },
};
