import { Client } from 'pg';

/**
 * A separate connection to Postgres for a lease. A pooled connection can hang for minutes when the network swallows
 * packets; here a statement that is not answered in time ends its connection, and the next statement makes a new one.
 */
export class LeaseConnection {
  readonly #databaseUrl: string;
  readonly #timeoutMs: number;
  #client: Client | null = null;

  constructor(databaseUrl: string, timeoutMs: number) {
    this.#databaseUrl = databaseUrl;
    this.#timeoutMs = timeoutMs;
  }

  /** @throws when it is not answered in time, or refused */
  run = async (text: string, values: readonly unknown[]): Promise<Record<string, unknown>[]> => {
    const client = this.#client ?? new Client({ connectionString: this.#databaseUrl, keepAlive: true });
    const timer = setTimeout(() => destroy(client), this.#timeoutMs);
    try {
      if (this.#client !== client) {
        // A later error is thrown by the next statement.
        client.on('error', () => this.#forget(client));
        await client.connect();
        this.#client = client;
      }
      return (await client.query(text, [...values])).rows;
    } catch (error) {
      this.#forget(client);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  };

  close(): void {
    if (this.#client) this.#forget(this.#client);
  }

  #forget(client: Client): void {
    if (this.#client === client) this.#client = null;
    destroy(client);
  }
}

/** At once: an orderly end would hang like everything else on such a connection. */
function destroy(client: Client): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
