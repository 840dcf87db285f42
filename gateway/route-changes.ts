import { randomUUID } from 'node:crypto';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import type { SandboxId } from '../domain/ids.ts';
import type { RouteChanges } from './routes.ts';

/** The channel of NOTIFY on which Postgres announces changed routes; the payload is the sandbox id. */
export const routeChangeChannel = 'sandbox_route_changed';

export interface PostgresRouteChangesOptions {
  databaseUrl: string;
  logger: Logger;
  /** How often the connection proves that notifications still arrive. */
  heartbeatMs?: number;
  /** How long such a proof, or a connect, may take. */
  heartbeatTimeoutMs?: number;
  maxReconnectDelayMs?: number;
}

/**
 * Listens on Postgres for changed routes, on a connection of its own, and comes back by itself when it is lost.
 *
 * A dead peer behind a silent network, or a pooler that forgets LISTEN, would leave routes stale for ever. So the
 * connection notifies a channel of its own all the time, and counts as lost when its echo does not arrive.
 */
export class PostgresRouteChanges implements RouteChanges {
  readonly #options: Required<PostgresRouteChangesOptions>;
  readonly #changeListeners: ((sandboxId: SandboxId) => void)[] = [];
  readonly #liveListeners: ((live: boolean) => void)[] = [];
  readonly #closing = new AbortController();
  #live = false;
  #running: Promise<void> | null = null;

  constructor(options: PostgresRouteChangesOptions) {
    this.#options = { heartbeatMs: 5000, heartbeatTimeoutMs: 3000, maxReconnectDelayMs: 2000, ...options };
  }

  get live(): boolean {
    return this.#live;
  }

  onChange(listener: (sandboxId: SandboxId) => void): void {
    this.#changeListeners.push(listener);
  }

  onLiveChange(listener: (live: boolean) => void): void {
    this.#liveListeners.push(listener);
  }

  /** Starts to listen; returns at once, `live` turns true when it does. */
  start(): void {
    this.#running ??= this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    let failures = 0;
    while (!signal.aborted) {
      try {
        await this.#listen(() => {
          failures = 0;
        });
      } catch (error) {
        if (signal.aborted) return;
        this.#options.logger.warn({ err: error }, 'route changes do not arrive: no LISTEN connection');
      } finally {
        this.#setLive(false);
      }
      const spacingMs = Math.min(100 * 2 ** failures++, this.#options.maxReconnectDelayMs);
      await delay(spacingMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
    }
  }

  /** Listens until the connection is lost (rejects) or this is closed (resolves). */
  async #listen(onLive: () => void): Promise<void> {
    const { databaseUrl, heartbeatMs, heartbeatTimeoutMs } = this.#options;
    const { signal } = this.#closing;
    const echoChannel = `gateway_${randomUUID().replaceAll('-', '')}`;
    const socket = new net.Socket();
    const client = new pg.Client({
      stream: () => socket,
      connectionString: databaseUrl,
      application_name: 'gateway-routes',
      connectionTimeoutMillis: heartbeatTimeoutMs,
      keepAlive: true,
    });
    let echo: (() => void) | null = null;
    let loss: Error | null = null;
    let giveUp: (error: Error) => void = () => undefined;
    const lose = (error: Error) => {
      loss ??= error;
      giveUp(loss);
    };
    client.on('error', lose);
    client.on('end', () => lose(new Error('connection ended')));
    /** Rejects when the connection is lost. A race with one promise of the loss would grow with every heartbeat. */
    const unlessLost = <T>(work: Promise<T>) =>
      new Promise<T>((resolve, reject) => {
        giveUp = reject;
        if (loss) reject(loss);
        work.then(resolve, reject);
      });
    client.on('notification', ({ channel, payload }) => {
      if (channel === echoChannel) echo?.();
      else if (payload) for (const listener of this.#changeListeners) listener(payload as SandboxId);
    });
    try {
      await client.connect();
      await unlessLost(client.query(`LISTEN ${routeChangeChannel}; LISTEN ${echoChannel}`));
      for (let first = true; !signal.aborted; first = false) {
        const echoed = new Promise<void>((resolve) => {
          echo = resolve;
        });
        const timeout = new AbortController();
        const late = delay(heartbeatTimeoutMs, undefined, { signal: timeout.signal }).then(() => {
          throw new Error('no echo of a notification');
        });
        late.catch(() => undefined);
        try {
          const notified = client.query(`NOTIFY ${echoChannel}`).then(() => echoed);
          notified.catch(() => undefined);
          await unlessLost(Promise.race([notified, late]));
        } finally {
          timeout.abort();
        }
        if (first) {
          onLive();
          this.#setLive(true);
        }
        await unlessLost(delay(heartbeatMs, undefined, { signal }).catch(() => undefined));
      }
    } finally {
      // A connection that is stuck would make a polite end wait for ever.
      await Promise.race([client.end().catch(() => undefined), delay(500)]);
      socket.destroy();
    }
  }

  #setLive(live: boolean): void {
    if (this.#live === live) return;
    this.#live = live;
    for (const listener of this.#liveListeners) listener(live);
  }
}
