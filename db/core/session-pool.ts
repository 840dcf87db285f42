import type { Socket } from 'node:net';
import type { Pool, PoolClient } from 'pg';

/** How long Postgres waits for a session, in milliseconds. It ends longer waits, so that others can continue. */
export interface SessionLimits {
  /** For one statement, from its arrival to its end. */
  statementMs: number;
  /** For a lock that another transaction holds. */
  lockMs: number;
  /** In a transaction, for the next statement, because a suspended process must not keep its locks. */
  idleInTransactionMs: number;
}

/** How much later than the server this process ends a statement. */
const silenceGraceMs = 5000;

/**
 * Gives every session of a pool its limits. A server that hangs does not enforce them, so this process closes a
 * connection on which nothing arrives for longer than a statement may take.
 */
export function limitSessions(pool: Pool, { statementMs, lockMs, idleInTransactionMs }: SessionLimits): void {
  pool.on('connect', (client) => {
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
    stream.setTimeout(statementMs + silenceGraceMs, () => stream.destroy());
    client
      // Set by a statement and not by connection parameters, because a connection pooler may refuse those.
      .query(
        `set statement_timeout = ${statementMs}; set lock_timeout = ${lockMs};
         set idle_in_transaction_session_timeout = ${idleInTransactionMs}`,
      )
      // If this fails, the first statement of the connection also fails, and its caller gets the error.
      .catch(() => {});
  });
}

/** How long the holder of a lost connection has to release it. */
const releaseGraceMs = 1000;

/**
 * Releases lost connections if their holders do not. Kysely releases the connection of a transaction only when its
 * commit or rollback succeeds, which never happens on a lost connection. Without this, each transaction during a
 * restart of Postgres would permanently cost the pool a connection.
 */
export function reclaimLostConnections(pool: Pool): void {
  const held = new Set<PoolClient>();
  pool.on('acquire', (client) => held.add(client));
  pool.on('release', (_error, client) => held.delete(client as PoolClient));
  pool.on('connect', (client) => {
    client.once('end', () => {
      setTimeout(() => {
        if (held.has(client)) client.release(true);
      }, releaseGraceMs).unref();
    });
  });
}
