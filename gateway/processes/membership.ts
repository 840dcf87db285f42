import type { SocketHandle } from './bound-socket.ts';
import type { FromProcess, ToProcess } from './messages.ts';
import { SharedCounts } from './shared-counts.ts';

const signOfLifeIntervalMs = 1000;

/** The interface of a serving process to `GatewayProcesses`. */
export class Membership {
  readonly counts = new SharedCounts((counts) => this.#send({ kind: 'counts', counts }));
  readonly ticketKeys: Buffer;
  /** The gateway's port, bound by the primary. */
  readonly socket: SocketHandle;
  /** Returns the metrics of this process when the primary asks for them. */
  collectMetrics: () => Promise<object[]> = async () => [];

  private constructor(ticketKeys: Buffer, socket: SocketHandle, onStop: () => void) {
    this.ticketKeys = ticketKeys;
    this.socket = socket;
    process.on('message', (message: ToProcess) => {
      if (message.kind === 'stop') onStop();
      else if (message.kind === 'others') this.counts.setOthers(message.counts);
      else if (message.kind === 'collect') this.#reply(message.collection);
    });
    setInterval(() => this.#send({ kind: 'alive' }), signOfLifeIntervalMs).unref();
  }

  /** @param onStop called when the primary asks this process to drain and exit */
  static join(onStop: () => void): Promise<Membership> {
    if (!process.send) throw new Error('this program is started by gateway/server.ts');
    // The primary has exited.
    process.once('disconnect', () => process.exit(1));
    return new Promise((resolve) => {
      process.once('message', (message: ToProcess, socket) => {
        if (message.kind !== 'welcome') throw new Error(`${message.kind} came before the welcome`);
        const ticketKeys = Buffer.from(message.ticketKeys, 'base64');
        resolve(new Membership(ticketKeys, socket as unknown as SocketHandle, onStop));
      });
    });
  }

  ready(): void {
    this.#send({ kind: 'ready' });
  }

  leaving(): void {
    this.#send({ kind: 'leaving' });
  }

  #reply(collection: number): void {
    this.collectMetrics().then(
      (metrics) => this.#send({ kind: 'metrics', collection, metrics }),
      // The primary continues without these metrics, and counts the processes that replied.
      () => this.#send({ kind: 'metrics', collection, metrics: [] }),
    );
  }

  #send(message: FromProcess): void {
    if (process.connected) process.send!(message, undefined, undefined, () => undefined);
  }
}
