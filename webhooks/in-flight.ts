import type { AccountId } from '../domain/ids.ts';

/** The most requests in flight in this process. */
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

/** Counts requests, so that a slow or dead endpoint holds few sockets and delays no other. */
export class InFlight {
  readonly #limits: InFlightLimits;
  /** When each request of an endpoint began. */
  readonly #endpoints = new Map<string, Set<{ sinceMs: number }>>();
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
  rooms(): { endpoints: Map<string, number>; accounts: Map<string, number> } {
    const { perAccount } = this.#limits;
    return {
      endpoints: new Map([...this.#endpoints.keys()].map((endpointId) => [endpointId, this.#roomOf(endpointId)])),
      accounts: new Map([...this.#accounts].map(([accountId, count]) => [accountId, perAccount - count])),
    };
  }

  /** @returns ends the request; null: there is no room */
  enter(endpointId: string, accountId: AccountId): (() => void) | null {
    const ofAccount = this.#accounts.get(accountId) ?? 0;
    if (this.room <= 0 || ofAccount >= this.#limits.perAccount || this.#roomOf(endpointId) <= 0) return null;
    const requests = this.#endpoints.get(endpointId) ?? new Set();
    const request = { sinceMs: Date.now() };
    this.#endpoints.set(endpointId, requests.add(request));
    this.#accounts.set(accountId, ofAccount + 1);
    this.#total += 1;
    return () => {
      if (!requests.delete(request)) return;
      if (requests.size === 0) this.#endpoints.delete(endpointId);
      const left = this.#accounts.get(accountId)! - 1;
      if (left === 0) this.#accounts.delete(accountId);
      else this.#accounts.set(accountId, left);
      this.#total -= 1;
    };
  }

  #roomOf(endpointId: string): number {
    const requests = this.#endpoints.get(endpointId);
    if (!requests) return this.#limits.perEndpoint;
    // A set keeps the order of insertion, so the first is the oldest.
    const [oldest] = requests;
    const isSlow = oldest !== undefined && Date.now() - oldest.sinceMs > slowAfterMs;
    return (isSlow ? this.#limits.perSlowEndpoint : this.#limits.perEndpoint) - requests.size;
  }
}
