import { randomUUID } from 'node:crypto';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';

export interface NotificationListenerOptions {
  databaseUrl: string;
  /** An SQL identifier, and also the name of the connection in `pg_stat_activity`. */
  channel: string;
  logger: Logger;
  onNotification: (payload: string) => void;
  /** True: notifications arrive from now on. False: they do not. Notifications in between are lost. */
  onLiveChange: (live: boolean) => void;
  /** The interval at which the connection checks that notifications still arrive. */
  heartbeatMs?: number | undefined;
  /** The time limit of such a check, and of a connect. */
  heartbeatTimeoutMs?: number | undefined;
  maxReconnectDelayMs?: number | undefined;
}

/**
 * Listens to one channel of Postgres on its own connection, and reconnects when the connection is lost.
 *
 * A dead peer behind a silent network, or a pooler that drops LISTEN, would never be detected. So the connection also
 * notifies its own channel at intervals, and counts as lost when that echo does not arrive.
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
        logger.warn({ err: error, channel }, 'notifications do not arrive because the LISTEN connection is lost');
      } finally {
        this.#setLive(false);
      }
      const spacingMs = Math.min(100 * 2 ** failures++, maxReconnectDelayMs);
      await delay(spacingMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
    }
  }

  /** Listens until the connection is lost (rejects) or this listener is closed (resolves). */
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
    /**
     * Rejects when the connection is lost. A race with a single promise of the loss would leak memory with every
     * heartbeat.
     */
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
      // An orderly close would wait forever on a hanging connection.
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
