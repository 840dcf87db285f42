import { randomUUID } from 'node:crypto';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';

export interface NotificationListenerOptions {
  databaseUrl: string;
  /** An SQL identifier; also the name of the connection in `pg_stat_activity`. */
  channel: string;
  logger: Logger;
  onNotification: (payload: string) => void;
  /** Notifications arrive from now on (true), or do not (false). Those that came while it was false are missed. */
  onLiveChange: (live: boolean) => void;
  /** How often the connection proves that notifications still arrive. */
  heartbeatMs?: number | undefined;
  /** How long such a proof, or a connect, may take. */
  heartbeatTimeoutMs?: number | undefined;
  maxReconnectDelayMs?: number | undefined;
}

/**
 * Listens to one channel of Postgres on a connection of its own, and connects again when the connection is lost.
 *
 * A dead peer behind a silent network, or a pooler that forgets LISTEN, would go unnoticed for ever. So the connection
 * also notifies a channel of its own at intervals, and counts as lost when that echo does not arrive.
 */
export class NotificationListener {
  readonly #options: NotificationListenerOptions;
  readonly #heartbeatMs: number;
  readonly #heartbeatTimeoutMs: number;
  readonly #closing = new AbortController();
  #live = false;
  #running: Promise<void> | null = null;

  constructor(options: NotificationListenerOptions) {
    this.#options = options;
    this.#heartbeatMs = options.heartbeatMs ?? 5000;
    this.#heartbeatTimeoutMs = options.heartbeatTimeoutMs ?? 3000;
  }

  get live(): boolean {
    return this.#live;
  }

  /** Starts to listen and returns at once. */
  start(): void {
    this.#running ??= this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { channel, logger, maxReconnectDelayMs = 2000 } = this.#options;
    const { signal } = this.#closing;
    let failures = 0;
    while (!signal.aborted) {
      try {
        await this.#listen(() => {
          failures = 0;
        });
      } catch (error) {
        if (signal.aborted) return;
        logger.warn({ err: error, channel }, 'notifications do not arrive: no LISTEN connection');
      } finally {
        this.#setLive(false);
      }
      const spacingMs = Math.min(100 * 2 ** failures++, maxReconnectDelayMs);
      await delay(spacingMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
    }
  }

  /** Listens until the connection is lost (rejects) or this is closed (resolves). */
  async #listen(onLive: () => void): Promise<void> {
    const { databaseUrl, channel, onNotification } = this.#options;
    const { signal } = this.#closing;
    const echoChannel = `echo_${randomUUID().replaceAll('-', '')}`;
    const socket = new net.Socket();
    const client = new pg.Client({
      stream: () => socket,
      connectionString: databaseUrl,
      application_name: channel,
      connectionTimeoutMillis: this.#heartbeatTimeoutMs,
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
    client.on('notification', ({ channel: from, payload = '' }) => {
      if (from === echoChannel) echo?.();
      else onNotification(payload);
    });
    try {
      await client.connect();
      await unlessLost(client.query(`LISTEN ${channel}; LISTEN ${echoChannel}`));
      for (let first = true; !signal.aborted; first = false) {
        const echoed = new Promise<void>((resolve) => {
          echo = resolve;
        });
        const timeout = new AbortController();
        const late = delay(this.#heartbeatTimeoutMs, undefined, { signal: timeout.signal }).then(() => {
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
        await unlessLost(delay(this.#heartbeatMs, undefined, { signal }).catch(() => undefined));
      }
    } finally {
      // An orderly end would wait for ever on a connection that hangs.
      await Promise.race([client.end().catch(() => undefined), delay(500)]);
      socket.destroy();
    }
  }

  #setLive(live: boolean): void {
    if (this.#live === live) return;
    this.#live = live;
    this.#options.onLiveChange(live);
  }
}
