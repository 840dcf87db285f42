import { type CliCommand, getSandbox, parsePairs } from './command.ts';

export const shell: CliCommand = {
  name: 'shell',
  maxWords: 1,
  usage: 'SANDBOX [--user U] [--cwd DIR] [--env A=B]… [-- COMMAND…]',
  summary: 'open a terminal in a sandbox, with a login shell or a command',
  options: {
    user: { type: 'string', short: 'u' },
    cwd: { type: 'string' },
    env: { type: 'string', short: 'e', multiple: true },
  },
  async run(invocation) {
    const { rest, options } = invocation;
    const sandbox = await getSandbox(invocation);
    const { stdin, stdout } = process;
    const size = () => ({ cols: stdout.columns ?? 80, rows: stdout.rows ?? 24 });
    const terminal = await sandbox.pty.start({
      ...size(),
      envs: { TERM: process.env.TERM || 'xterm-256color', ...parsePairs(options.env) },
      ...(rest.length > 0 && { command: rest }),
      ...(options.user !== undefined && { user: String(options.user) }),
      ...(options.cwd !== undefined && { cwd: String(options.cwd) }),
      onData: (bytes) => stdout.write(bytes),
    });
    // Keys and sizes are sent one after the other, in the order of their arrival.
    let sending: Promise<unknown> = Promise.resolve();
    const send = (work: () => Promise<unknown>) => {
      // After the end of the program, input has no receiver.
      sending = sending.then(work).catch(() => undefined);
    };
    const onResize = () => send(() => terminal.resize(size()));
    stdout.on('resize', onResize);
    if (stdin.isTTY) stdin.setRawMode(true);
    stdin.on('data', (bytes) => send(() => terminal.write(bytes)));
    // If the input is not a terminal, it has an end, which is Ctrl-D on a terminal.
    stdin.once('end', () => send(() => terminal.write('\x04')));
    try {
      return (await terminal.wait()).exitCode;
    } finally {
      stdout.off('resize', onResize);
      if (stdin.isTTY) stdin.setRawMode(false);
      stdin.destroy();
    }
  },
};
