import type { Client } from '@connectrpc/connect';
import type { Process, ProcessEvent } from '../../../agent/proto/gen/sandboxagent_pb.js';
import { eventually } from './agent.ts';

export interface WindowSize {
  cols: number;
  rows: number;
}

/** A process on a terminal. `screen` has its output. */
export class Terminal {
  pid = 0;
  screen = '';
  end: ProcessEvent['event']['value'] | undefined;
  readonly finished: Promise<void>;
  readonly #client: Client<typeof Process>;

  constructor(
    client: Client<typeof Process>,
    [cmd, ...args]: string[],
    { size, envs = {} }: { size?: WindowSize | undefined; envs?: Record<string, string> | undefined } = {},
  ) {
    this.#client = client;
    const stream = client.start({ process: { cmd, args, envs }, pty: { size } });
    this.finished = (async () => {
      for await (const { event } of stream) {
        const current = event!.event;
        if (current.case === 'start') this.pid = current.value.pid;
        if (current.case === 'data') {
          if (current.value.output.case !== 'pty') throw new Error(`a terminal current ${current.value.output.case}`);
          this.screen += Buffer.from(current.value.output.value).toString();
        }
        if (current.case === 'end') this.end = current.value;
      }
    })();
  }

  get process() {
    return { selector: { case: 'pid' as const, value: this.pid } };
  }

  async type(text: string): Promise<void> {
    await eventually(() => this.pid);
    await this.#client.sendInput({
      process: this.process,
      input: { input: { case: 'pty', value: Buffer.from(text) } },
    });
  }

  async resize(size: WindowSize): Promise<void> {
    await this.#client.update({ process: this.process, pty: { size } });
  }

  /** Waits until the screen matches. */
  async shows(pattern: RegExp): Promise<void> {
    await eventually(() => pattern.test(this.screen)).catch((cause) => {
      throw new Error(`no ${pattern} on the screen: ${JSON.stringify(this.screen.slice(-500))}`, { cause });
    });
  }
}
