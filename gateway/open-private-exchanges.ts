import pLimit from 'p-limit';
import type { SandboxId } from '../domain/ids.ts';
import type { Exchange } from './exchange.ts';
import type { RouteTable } from './routes.ts';

/** Look-ups at once after an interruption of the notifications, when any route may have changed. */
const lookupsAtOnce = 8;

/**
 * Requests and WebSockets in progress to agents and to ports that need the token. They end when the owner of their
 * sandbox is disabled; those to public ports continue. Those of web pages also end with a pause, which the page then
 * shows.
 */
export class OpenPrivateExchanges {
  readonly #routes: RouteTable;
  /** With what ends each. */
  readonly #open = new Map<SandboxId, Map<Exchange, { endsWithPause: boolean }>>();
  readonly #limit = pLimit(lookupsAtOnce);

  constructor(routes: RouteTable) {
    this.#routes = routes;
    routes.onChange((changed) => {
      const sandboxIds = changed === null ? this.#open.keys() : [changed];
      for (const sandboxId of sandboxIds) {
        if (this.#open.has(sandboxId)) void this.#limit(() => this.#check(sandboxId));
      }
    });
  }

  /** @returns removes it again when it is over */
  add(sandboxId: SandboxId, exchange: Exchange, ends: { endsWithPause: boolean }): () => void {
    const open = this.#open.get(sandboxId) ?? new Map<Exchange, { endsWithPause: boolean }>();
    this.#open.set(sandboxId, open);
    open.set(exchange, ends);
    // A change may have been announced after the look-up for this exchange and before this line.
    void this.#check(sandboxId);
    return () => {
      open.delete(exchange);
      if (open.size === 0 && this.#open.get(sandboxId) === open) this.#open.delete(sandboxId);
    };
  }

  async #check(sandboxId: SandboxId): Promise<void> {
    // If the route cannot be read now, notifications are interrupted as well, and their return calls this again.
    const route = await this.#routes.find(sandboxId).catch(() => null);
    if (!route) return;
    for (const [exchange, { endsWithPause }] of this.#open.get(sandboxId) ?? []) {
      if (route.isLocked || (endsWithPause && route.status !== 'running')) exchange.destroy();
    }
  }
}
