import net from 'node:net';
import pLimit from 'p-limit';

const connectMs = 1000;
/** Connections at once. */
const width = 32;

/**
 * Which sandboxes run without their agent: nothing listens at its port. What does not answer may only be busy, and does not
 * count.
 */
export class AgentProbes {
  #gone = new Set<string>();
  #looking: Promise<void> | null = null;

  /** What the last look has found. */
  isGone(sandboxId: string): boolean {
    return this.#gone.has(sandboxId);
  }

  /** Begins a look at the agents at these addresses, unless one is under way. */
  look(places: readonly { sandboxId: string; address: string; port: number }[]): void {
    this.#looking ??= this.#look(places).finally(() => {
      this.#looking = null;
    });
  }

  /** Ends after the current look. */
  async close(): Promise<void> {
    await this.#looking;
  }

  async #look(places: readonly { sandboxId: string; address: string; port: number }[]): Promise<void> {
    const gone = new Set<string>();
    await pLimit(width).map(places, async ({ sandboxId, address, port }) => {
      if (await refusesConnections(address, port)) gone.add(sandboxId);
    });
    this.#gone = gone;
  }
}

/** Whether nothing listens there. */
export function refusesConnections(address: string, port: number): Promise<boolean> {
  const socket = net.connect({ host: address, port });
  return new Promise<boolean>((resolve) => {
    socket.setTimeout(connectMs, () => resolve(false));
    socket.once('connect', () => resolve(false));
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
  }).finally(() => socket.destroy());
}
