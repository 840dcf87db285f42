import type { AccountId, WebhookEndpointId } from '../domain/ids.ts';

/** How many requests of this process may be under way, or have no recorded outcome, at once. */
export interface InFlightLimits {
  total: number;
  perAccount: number;
  perEndpoint: number;
  /** For an endpoint with a request that has taken longer than a second. */
  perSlowEndpoint: number;
}

/** First attempts and attempts of workflows are counted apart: neither takes the other's room. */
export const firstAttemptLimits: InFlightLimits = { total: 2048, perAccount: 128, perEndpoint: 64, perSlowEndpoint: 4 };
export const retryLimits: InFlightLimits = { total: 256, perAccount: 64, perEndpoint: 8, perSlowEndpoint: 4 };

const slowAfterMs = 1000;

/** A request that takes up room until its outcome is recorded. */
export interface Place {
  /** The request has ended: from now on it does not make its endpoint a slow one. */
  answered(): void;
  /** Its outcome is recorded: there is room for another. */
  leave(): void;
}

/**
 * Counts requests, so that a slow or dead endpoint holds few sockets and delays no other. A request counts until its
 * outcome is recorded, which bounds how many are made again when this process is killed.
 */
export class InFlight {
  readonly #limits: InFlightLimits;
  /** Of each endpoint: how many count, and since when each that is not answered is under way. */
  readonly #endpoints = new Map<WebhookEndpointId, { count: number; unanswered: Set<{ sinceMs: number }> }>();
  readonly #accounts = new Map<string, number>();
  #total = 0;

  constructor(limits: InFlightLimits) {
    this.#limits = limits;
  }

  get total(): number {
    return this.#total;
  }

  /** How many more requests may begin altogether. */
  get room(): number {
    return this.#limits.total - this.#total;
  }

  /** Endpoints and accounts with requests in flight, and how many more each may have. */
  rooms(): { endpoints: Map<WebhookEndpointId, number>; accounts: Map<string, number> } {
    const { perAccount } = this.#limits;
    return {
      endpoints: new Map([...this.#endpoints.keys()].map((endpointId) => [endpointId, this.roomOf(endpointId)])),
      accounts: new Map([...this.#accounts].map(([accountId, count]) => [accountId, perAccount - count])),
    };
  }

  /**
   * Takes a place. An endpoint that has become slow since its room was asked for gets one all the same: what is taken
   * already costs less as a request than as a workflow.
   * @returns null: there is no room
   */
  enter(endpointId: WebhookEndpointId, accountId: AccountId): Place | null {
    const ofAccount = this.#accounts.get(accountId) ?? 0;
    const endpoint = this.#endpoints.get(endpointId) ?? { count: 0, unanswered: new Set() };
    if (this.room <= 0 || ofAccount >= this.#limits.perAccount || endpoint.count >= this.#limits.perEndpoint)
      return null;
    const request = { sinceMs: Date.now() };
    this.#endpoints.set(endpointId, endpoint);
    endpoint.unanswered.add(request);
    endpoint.count += 1;
    this.#accounts.set(accountId, ofAccount + 1);
    this.#total += 1;
    let hasLeft = false;
    return {
      answered: () => void endpoint.unanswered.delete(request),
      leave: () => {
        if (hasLeft) return;
        hasLeft = true;
        endpoint.unanswered.delete(request);
        endpoint.count -= 1;
        if (endpoint.count === 0) this.#endpoints.delete(endpointId);
        const left = this.#accounts.get(accountId)! - 1;
        if (left === 0) this.#accounts.delete(accountId);
        else this.#accounts.set(accountId, left);
        this.#total -= 1;
      },
    };
  }

  /** How many more requests an endpoint may have now. */
  roomOf(endpointId: WebhookEndpointId): number {
    const endpoint = this.#endpoints.get(endpointId);
    if (!endpoint) return this.#limits.perEndpoint;
    // The oldest is the first of the set.
    const [oldest] = endpoint.unanswered;
    const isSlow = oldest !== undefined && Date.now() - oldest.sinceMs > slowAfterMs;
    return (isSlow ? this.#limits.perSlowEndpoint : this.#limits.perEndpoint) - endpoint.count;
  }
}
