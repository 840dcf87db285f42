import { buffer } from 'node:stream/consumers';
import { type CliCommand, getSandbox, parseNumber, parsePairs, printJson, printOutput, UsageError } from './command.ts';

export const exec: CliCommand = {
  name: 'exec',
  maxWords: 1,
  usage: 'SANDBOX [--user U] [--cwd DIR] [--env A=B]… [--timeout SECONDS] [--stdin] -- COMMAND…',
  summary: 'run a command; exits with its exit code. A single argument is a command line for the shell',
  options: {
    user: { type: 'string', short: 'u' },
    cwd: { type: 'string' },
    env: { type: 'string', short: 'e', multiple: true },
    timeout: { type: 'string' },
    stdin: { type: 'boolean', short: 'i' },
  },
  async run(invocation) {
    const { rest, options, json } = invocation;
    if (rest.length === 0) throw new UsageError('Give a command after --');
    const sandbox = await getSandbox(invocation);
    const seconds = parseNumber(options.timeout, '--timeout');
    const handle = await sandbox.commands.run(rest.length === 1 ? rest[0]! : rest, {
      background: true,
      envs: parsePairs(options.env),
      ...(options.user !== undefined && { user: String(options.user) }),
      ...(options.cwd !== undefined && { cwd: String(options.cwd) }),
      ...(options.stdin && { stdin: await buffer(process.stdin) }),
      ...(seconds !== undefined && { timeoutMs: seconds * 1000 }),
      ...(!json && { onStdout: printOutput('stdout'), onStderr: printOutput('stderr') }),
    });
    let interruptedBy = 0;
    const interrupt = (_name: string, signal: number) => {
      interruptedBy ||= signal;
      void handle.kill('SIGTERM');
    };
    process.on('SIGINT', interrupt);
    process.on('SIGTERM', interrupt);
    const { exitCode, stdout, stderr, truncated } = await handle.wait();
    if (json) printJson({ exit_code: exitCode, stdout, stderr, truncated });
    return interruptedBy ? 128 + interruptedBy : exitCode;
  },
};
