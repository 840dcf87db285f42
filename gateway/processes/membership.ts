import type { FromProcess, ToProcess } from './messages.ts';
import { SharedCounts } from './shared-counts.ts';

const SIGN_OF_LIFE_INTERVAL_MS = 1000;

/** A serving process's side of `GatewayProcesses`. */
export class Membership {
  readonly counts = new SharedCounts((counts) => this.#send({ kind: 'counts', counts }));
  readonly ticketKeys: Buffer;

  private constructor(ticketKeys: Buffer, onStop: () => void) {
    this.ticketKeys = ticketKeys;
    process.on('message', (message: ToProcess) => {
      if (message.kind === 'stop') onStop();
      else if (message.kind === 'others') this.counts.setOthers(message.counts);
    });
    setInterval(() => this.#send({ kind: 'alive' }), SIGN_OF_LIFE_INTERVAL_MS).unref();
  }

  /** @param onStop the primary asks this process to drain and exit */
  static join(onStop: () => void): Promise<Membership> {
    if (!process.send) throw new Error('this program is started by gateway/server.ts');
    return new Promise((resolve) => {
      process.once('message', (message: ToProcess) => {
        if (message.kind !== 'welcome') throw new Error(`${message.kind} came before the welcome`);
        resolve(new Membership(Buffer.from(message.ticketKeys, 'base64'), onStop));
      });
    });
  }

  ready(host: string, port: number): void {
    this.#send({ kind: 'ready', host, port });
  }

  leaving(): void {
    this.#send({ kind: 'leaving' });
  }

  #send(message: FromProcess): void {
    // The primary's end disconnects; this process then exits by itself.
    if (process.connected) process.send!(message, undefined, undefined, () => undefined);
  }
}
