import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import type { Logger } from 'pino';

const reconnectMs = 1000;

/**
 * Calls back for each notification of a channel. Those that come while the connection is lost are missed, so it only
 * makes a caller faster that asks by itself as well.
 */
export class NotificationListener {
  readonly #options: { databaseUrl: string; channel: string; logger: Logger; onNotification: () => void };
  readonly #closing = new AbortController();
  #running: Promise<void> | null = null;

  constructor(options: { databaseUrl: string; channel: string; logger: Logger; onNotification: () => void }) {
    this.#options = options;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.#listen().catch((error) =>
        this.#options.logger.warn({ err: error, channel: this.#options.channel }, 'no notifications; connecting again'),
      );
      await delay(reconnectMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Until the connection is lost, or this is closed. */
  async #listen(): Promise<void> {
    const { databaseUrl, channel, onNotification } = this.#options;
    const { signal } = this.#closing;
    const client = new Client({ connectionString: databaseUrl, keepAlive: true, application_name: channel });
    const lost = new Promise<void>((resolve, reject) => {
      client.on('error', reject);
      client.on('end', resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    lost.catch(() => undefined);
    client.on('notification', onNotification);
    try {
      await client.connect();
      await client.query(`listen ${channel}`);
      // What was missed before.
      onNotification();
      await lost;
    } finally {
      // A connection that is stuck would make a polite end wait for ever.
      await Promise.race([client.end().catch(() => undefined), delay(500, undefined, { ref: false })]);
    }
  }
}
