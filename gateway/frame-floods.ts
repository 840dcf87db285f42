import type { BoundedLog } from './bounded-log.ts';

const checkEveryMs = 100;
/** The longest time that a client is refused after its last flood. */
const maxDebtSeconds = 10;
/** A client that has been quiet may send this many seconds of its rate at once. */
const burstSeconds = 2;
/** The credit for the headers and frames of one answered request, in bytes. */
const creditOfRequestBytes = 8 * 1024;
/** The cost of a request that its client cancels, because most of its work is already done. */
const costOfResetBytes = 16 * 1024;
/** The cost of each piece of a body of any size. */
const costOfPieceBytes = 48;

export interface FrameFloodsOptions {
  /** Bytes per second of all connections of one client that belong neither to a body nor to an answered request. */
  maxBytesPerSecond: number;
  log: BoundedLog;
}

/** An HTTP/2 connection for the flood detection. */
export interface FloodableConnection {
  readonly clientKey: string;
  /** Bytes received since the connection began. */
  receivedBytes(): number;
  end(): void;
}

/** Counts the useful bytes of a connection. */
export interface UsefulBytes {
  /** A piece of a body has arrived. */
  addBody(bytes: number): void;
  /** A request was answered. */
  addAnswer(): void;
  /** The client cancelled a request. */
  addReset(): void;
  /** The connection is closed. */
  stop(): void;
}

interface Connection {
  connection: FloodableConnection;
  useful: number;
  /** The received bytes at the last check that were not useful. */
  overhead: number;
}

/**
 * Ends HTTP/2 connections of clients that flood with frames: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, CONTINUATION,
 * empty DATA, refused header lists, immediately cancelled requests. Node handles most of them without an event, so they
 * only show in the number of received bytes. Bytes of bodies and of answered requests are credited, and the other bytes
 * count against a rate of the client. A client over its rate is in debt, and may open no HTTP/2 connection until the
 * debt is paid off.
 */
export class FrameFloods {
  readonly #options: FrameFloodsOptions;
  readonly #connections = new Set<Connection>();
  /** The bytes that a client may still send, for each client that is not quiet. Negative: its debt. */
  readonly #allowances = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;
  #refilledAtMs = 0;

  constructor(options: FrameFloodsOptions) {
    this.#options = options;
  }

  /** False while the client is in debt. */
  mayConnect(clientKey: string): boolean {
    return (this.#allowances.get(clientKey) ?? 0) >= 0;
  }

  watch(connection: FloodableConnection): UsefulBytes {
    const watched: Connection = { connection, useful: 0, overhead: 0 };
    this.#connections.add(watched);
    if (!this.#timer) {
      this.#refilledAtMs = performance.now();
      this.#timer = setInterval(() => this.#check(), checkEveryMs).unref();
    }
    return {
      addBody: (bytes) => {
        watched.useful += bytes - costOfPieceBytes;
      },
      addAnswer: () => {
        watched.useful += creditOfRequestBytes;
      },
      addReset: () => {
        watched.useful -= costOfResetBytes;
      },
      stop: () => {
        if (!this.#connections.delete(watched)) return;
        this.#charge(watched);
      },
    };
  }

  #check(): void {
    this.#refill();
    const ofClients = new Map<string, { watched: Connection; bytes: number }[]>();
    for (const watched of this.#connections) {
      const bytes = this.#charge(watched);
      if (bytes <= 0) continue;
      const { clientKey } = watched.connection;
      const ofClient = ofClients.get(clientKey);
      if (ofClient) ofClient.push({ watched, bytes });
      else ofClients.set(clientKey, [{ watched, bytes }]);
    }
    for (const [clientKey, ofClient] of ofClients) {
      if (this.mayConnect(clientKey)) continue;
      const total = ofClient.reduce((sum, { bytes }) => sum + bytes, 0);
      for (const { watched, bytes } of ofClient) {
        // Other clients at the same address share the debt, so clients with a smaller part are spared.
        if (2 * bytes * ofClient.length < total) continue;
        this.#connections.delete(watched);
        watched.connection.end();
      }
    }
    if (this.#connections.size > 0 || this.#allowances.size > 0 || !this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  #refill(): void {
    const now = performance.now();
    const bytes = ((now - this.#refilledAtMs) / 1000) * this.#options.maxBytesPerSecond;
    this.#refilledAtMs = now;
    for (const [clientKey, allowance] of this.#allowances) {
      if (allowance + bytes >= this.#burst) this.#allowances.delete(clientKey);
      else this.#allowances.set(clientKey, allowance + bytes);
    }
  }

  /**
   * Charges the bytes since the last check to the client's allowance.
   * @returns the number of those bytes
   */
  #charge(watched: Connection): number {
    const overhead = watched.connection.receivedBytes() - watched.useful;
    // The credit of a request arrives after its bytes. Surplus credit is not kept for later floods.
    const bytes = Math.max(overhead - watched.overhead, -this.#burst);
    watched.overhead = overhead;
    const { clientKey } = watched.connection;
    const isInDebt = !this.mayConnect(clientKey);
    const allowance = (this.#allowances.get(clientKey) ?? this.#burst) - bytes;
    if (allowance >= this.#burst) this.#allowances.delete(clientKey);
    else this.#allowances.set(clientKey, Math.max(allowance, -maxDebtSeconds * this.#options.maxBytesPerSecond));
    if (allowance < 0 && !isInDebt) {
      this.#options.log.write('warn', { client: clientKey }, 'a flood of HTTP/2 frames: connections are ended');
    }
    return bytes;
  }

  get #burst(): number {
    return burstSeconds * this.#options.maxBytesPerSecond;
  }
}
