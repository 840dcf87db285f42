import type { AccountId, WebhookEndpointId } from '../../domain/ids.ts';

/** The maximum numbers of this process's requests that are in progress, or have no recorded outcome. */
export interface InFlightLimits {
  total: number;
  perAccount: number;
  perEndpoint: number;
  /** The limit of an endpoint with a request that has taken longer than a second. */
  perSlowEndpoint: number;
}

/** First attempts and attempts of workflows are counted separately, so that neither uses the other's slots. */
export const firstAttemptLimits: InFlightLimits = { total: 2048, perAccount: 128, perEndpoint: 64, perSlowEndpoint: 4 };
export const retryLimits: InFlightLimits = { total: 256, perAccount: 64, perEndpoint: 8, perSlowEndpoint: 4 };

const slowAfterMs = 1000;

/** A request that counts until its outcome is recorded. */
export interface Slot {
  /** The request has ended. From now on it does not count as a slow one. */
  answered(): void;
  /** The outcome is recorded, so the request no longer counts. */
  release(): void;
}

/**
 * Counts requests, so that a slow or dead endpoint holds few sockets and does not delay others. A request counts until
 * its outcome is recorded. This bounds the number of requests that are repeated after this process is killed.
 */
export class InFlight {
  readonly #limits: InFlightLimits;
  /** By endpoint: the count, and the start times of unanswered requests. */
  readonly #endpoints = new Map<WebhookEndpointId, { count: number; unanswered: Set<{ sinceMs: number }> }>();
  readonly #accounts = new Map<string, number>();
  #total = 0;

  constructor(limits: InFlightLimits) {
    this.#limits = limits;
  }

  get total(): number {
    return this.#total;
  }

  /** The number of requests that may still begin, for all endpoints together. */
  get freeTotal(): number {
    return this.#limits.total - this.#total;
  }

  /** Endpoints and accounts with requests in flight, and the number of further requests that each may have. */
  freeSlotsByOwner(): { endpoints: Map<WebhookEndpointId, number>; accounts: Map<string, number> } {
    const { perAccount } = this.#limits;
    return {
      endpoints: new Map([...this.#endpoints.keys()].map((endpointId) => [endpointId, this.freeSlots(endpointId)])),
      accounts: new Map([...this.#accounts].map(([accountId, count]) => [accountId, perAccount - count])),
    };
  }

  /**
   * Takes a slot. An endpoint that became slow after the check of its free slots still gets one, because a claimed
   * delivery costs less as a request than as a workflow.
   * @returns null when there is no free slot
   */
  enter(endpointId: WebhookEndpointId, accountId: AccountId): Slot | null {
    const ofAccount = this.#accounts.get(accountId) ?? 0;
    const endpoint = this.#endpoints.get(endpointId) ?? { count: 0, unanswered: new Set() };
    if (this.freeTotal <= 0 || ofAccount >= this.#limits.perAccount || endpoint.count >= this.#limits.perEndpoint)
      return null;
    const request = { sinceMs: Date.now() };
    this.#endpoints.set(endpointId, endpoint);
    endpoint.unanswered.add(request);
    endpoint.count += 1;
    this.#accounts.set(accountId, ofAccount + 1);
    this.#total += 1;
    let isReleased = false;
    return {
      answered: () => void endpoint.unanswered.delete(request),
      release: () => {
        if (isReleased) return;
        isReleased = true;
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

  /** The number of further requests that an endpoint may have now. */
  freeSlots(endpointId: WebhookEndpointId): number {
    const endpoint = this.#endpoints.get(endpointId);
    if (!endpoint) return this.#limits.perEndpoint;
    // The oldest is the first of the set.
    const [oldest] = endpoint.unanswered;
    const isSlow = oldest !== undefined && Date.now() - oldest.sinceMs > slowAfterMs;
    return (isSlow ? this.#limits.perSlowEndpoint : this.#limits.perEndpoint) - endpoint.count;
  }
}
