import type { Sandbox } from '../sandbox.ts';
import { type CliCommand, getSandbox, print, printJson } from './command.ts';

/** A command that moves a sandbox from one state to another. */
function move(name: string, summary: string, work: (sandbox: Sandbox) => Promise<void>): CliCommand {
  return {
    ...{ name, summary, usage: 'SANDBOX', maxWords: 1 },
    async run(invocation) {
      const sandbox = await getSandbox(invocation);
      await work(sandbox);
      const { status } = await sandbox.info();
      if (invocation.json) printJson({ sandbox_id: sandbox.id, status });
      else print(status);
      return 0;
    },
  };
}

export const pause = move('pause', 'freeze a sandbox: memory, processes and disk are kept', (sandbox) =>
  sandbox.pause(),
);
export const resume = move('resume', 'resume a paused sandbox', (sandbox) => sandbox.resume());
export const restart = move('restart', 'end its processes and start it again on its disk', (sandbox) =>
  sandbox.restart(),
);
export const kill = move('kill', 'end it', (sandbox) => sandbox.terminate());
