import ipaddr from 'ipaddr.js';

/**
 * How much at once, in all processes of a gateway together. What is over it is refused with a clear answer; nothing
 * waits in a queue.
 */
export interface GatewayLimits {
  /** Connections from clients altogether; more are closed as they come. */
  maxConnections: number;
  /** Connections of one client: an IPv4 address or an IPv6 /64. 429. */
  maxConnectionsPerClient: number;
  /** Requests under way, WebSockets included, of one client. 429. */
  maxRequestsPerClient: number;
  /** Requests under way, WebSockets included, to one sandbox. 503. */
  maxRequestsPerSandbox: number;
  /** Requests under way on one HTTP/2 connection. */
  maxStreamsPerConnection: number;
  maxHeaderBytes: number;
  /** Until the header fields of a request, or a TLS handshake, have arrived. */
  headersTimeoutMs: number;
  /** How long a client may stand still while a response or a WebSocket has bytes for it. */
  stalledClientTimeoutMs: number;
}

export const DEFAULT_LIMITS: GatewayLimits = {
  maxConnections: 20_000,
  maxConnectionsPerClient: 2000,
  maxRequestsPerClient: 1000,
  // More than one client may have, so that none alone keeps the others out.
  maxRequestsPerSandbox: 2000,
  maxStreamsPerConnection: 128,
  maxHeaderBytes: 32 * 1024,
  headersTimeoutMs: 10_000,
  stalledClientTimeoutMs: 120_000,
};

/** What other processes of the same gateway count. */
export interface CountExchange {
  /** How many the others have under a key of that kind, as far as it is known here. */
  others(kind: string, key: string): number;
  /** Hears of each change here. */
  changed(kind: string, key: string, count: number, max: number): void;
}

/** The counts of a gateway that is one process. */
export const NO_OTHER_PROCESSES: CountExchange = { others: () => 0, changed: () => undefined };

/** Counts by key, and knows when there are too many. */
export class BoundedCounts {
  readonly #max: number;
  readonly #kind: string;
  readonly #exchange: CountExchange;
  readonly #counts = new Map<string, number>();

  /** @param kind the name that this limit has in every process */
  constructor(max: number, kind: string, exchange: CountExchange) {
    this.#max = max;
    this.#kind = kind;
    this.#exchange = exchange;
  }

  /** False when there are as many as there may be; then nothing is counted. */
  tryAdd(key: string): boolean {
    const count = this.#counts.get(key) ?? 0;
    if (count + this.#exchange.others(this.#kind, key) >= this.#max) return false;
    this.#set(key, count + 1);
    return true;
  }

  remove(key: string): void {
    const count = this.#counts.get(key) ?? 0;
    if (count > 0) this.#set(key, count - 1);
  }

  #set(key: string, count: number): void {
    if (count > 0) this.#counts.set(key, count);
    else this.#counts.delete(key);
    this.#exchange.changed(this.#kind, key, count, this.#max);
  }

  /** Of how many keys something is counted. */
  get size(): number {
    return this.#counts.size;
  }
}

/** Who counts as one client: the IPv4 address, or the /64 that one IPv6 customer holds. */
export function clientKey(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return parsed.toByteArray().slice(0, 8).join('.');
}
