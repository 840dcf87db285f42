import { Client } from 'pg';

/**
 * A separate connection to Postgres for a lease. A pooled connection can hang for minutes when the network drops
 * packets. Here a statement that is not answered in time closes its connection, and the next statement opens a new one.
 */
export class LeaseConnection {
  readonly #databaseUrl: string;
  readonly #timeoutMs: number;
  #client: Client | null = null;

  constructor(databaseUrl: string, timeoutMs: number) {
    this.#databaseUrl = databaseUrl;
    this.#timeoutMs = timeoutMs;
  }

  /** @throws when the statement is not answered in time, or is refused */
  run = async (text: string, values: readonly unknown[]): Promise<Record<string, unknown>[]> => {
    const client = this.#client ?? new Client({ connectionString: this.#databaseUrl, keepAlive: true });
    const timer = setTimeout(() => destroy(client), this.#timeoutMs);
    try {
      if (this.#client !== client) {
        // The next statement throws a later error.
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

/** Closes the connection at once, because an orderly close would also hang. */
function destroy(client: Client): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
