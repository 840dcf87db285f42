import net from 'node:net';
import pLimit from 'p-limit';

const connectMs = 1000;
const maxConcurrentProbes = 32;

/**
 * Finds the sandboxes that run without their agent. Their pods refuse connections at the agent's port. An agent that
 * does not answer in time may only be busy, so it counts as present.
 */
export class AgentProbes {
  #gone = new Set<string>();
  #checking: Promise<void> | null = null;

  /** Whether the last check found no agent in the sandbox. */
  isGone(sandboxId: string): boolean {
    return this.#gone.has(sandboxId);
  }

  /** Starts to check the agents at these addresses, unless a check is in progress. */
  check(places: readonly { sandboxId: string; address: string; port: number }[]): void {
    this.#checking ??= this.#check(places).finally(() => {
      this.#checking = null;
    });
  }

  /** Returns when the current check has ended. */
  async close(): Promise<void> {
    await this.#checking;
  }

  async #check(places: readonly { sandboxId: string; address: string; port: number }[]): Promise<void> {
    const gone = new Set<string>();
    await pLimit(maxConcurrentProbes).map(places, async ({ sandboxId, address, port }) => {
      if (await refusesConnections(address, port)) gone.add(sandboxId);
    });
    this.#gone = gone;
  }
}

/** Whether the machine at this address answers that no process listens at the port. */
export function refusesConnections(address: string, port: number): Promise<boolean> {
  const socket = net.connect({ host: address, port });
  return new Promise<boolean>((resolve) => {
    socket.setTimeout(connectMs, () => resolve(false));
    socket.once('connect', () => resolve(false));
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
  }).finally(() => socket.destroy());
}
