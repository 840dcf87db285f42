import pLimit from 'p-limit';
import type { SandboxId } from '../domain/ids.ts';
import type { Exchange } from './exchange.ts';
import type { RouteTable } from './routes.ts';

/** The number of concurrent lookups after an interruption of the notifications, when any route may have changed. */
const maxConcurrentLookups = 8;

/**
 * Requests and WebSockets in progress to agents and to ports that need the token. They end when the owner of their
 * sandbox is disabled; those to public ports continue. Those of web pages also end when the sandbox pauses, and the
 * page shows the pause.
 */
export class OpenPrivateExchanges {
  readonly #routes: RouteTable;
  /** The open exchanges of each sandbox, with the events that end them. */
  readonly #open = new Map<SandboxId, Map<Exchange, { endsWithPause: boolean }>>();
  readonly #limit = pLimit(maxConcurrentLookups);

  constructor(routes: RouteTable) {
    this.#routes = routes;
    routes.onChange((changed) => {
      const sandboxIds = changed === null ? this.#open.keys() : [changed];
      for (const sandboxId of sandboxIds) {
        if (this.#open.has(sandboxId)) void this.#limit(() => this.#check(sandboxId));
      }
    });
  }

  /** @returns a function that removes the exchange */
  add(sandboxId: SandboxId, exchange: Exchange, ends: { endsWithPause: boolean }): () => void {
    const open = this.#open.get(sandboxId) ?? new Map<Exchange, { endsWithPause: boolean }>();
    this.#open.set(sandboxId, open);
    open.set(exchange, ends);
    // A change may have been announced after this exchange's lookup and before this line.
    void this.#check(sandboxId);
    return () => {
      open.delete(exchange);
      if (open.size === 0 && this.#open.get(sandboxId) === open) this.#open.delete(sandboxId);
    };
  }

  async #check(sandboxId: SandboxId): Promise<void> {
    // If the route is unreadable now, notifications are interrupted too, and their return calls this method again.
    const route = await this.#routes.find(sandboxId).catch(() => null);
    if (!route) return;
    for (const [exchange, { endsWithPause }] of this.#open.get(sandboxId) ?? []) {
      if (route.isLocked || (endsWithPause && route.status !== 'running')) exchange.destroy();
    }
  }
}
