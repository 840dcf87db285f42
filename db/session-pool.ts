import type { Pool, PoolClient } from 'pg';

/** How long Postgres waits for a session, in milliseconds. It ends what takes longer, so that others can go on. */
export interface SessionLimits {
  /** One statement, from its arrival to its end. */
  statementMs: number;
  /** For a lock that another transaction holds. */
  lockMs: number;
  /** Within a transaction, for the next statement: a process that stands still must not keep its locks. */
  idleInTransactionMs: number;
}

/** Gives every session of a pool its limits. */
export function limitSessions(pool: Pool, { statementMs, lockMs, idleInTransactionMs }: SessionLimits): void {
  pool.on('connect', (client) => {
    client
      // By a statement, not by parameters of the connection, which a connection pooler in between may refuse.
      .query(
        `set statement_timeout = ${statementMs}; set lock_timeout = ${lockMs};
         set idle_in_transaction_session_timeout = ${idleInTransactionMs}`,
      )
      // A connection that fails here fails its first statement, too, and that error reaches a caller.
      .catch(() => {});
  });
}

/** How long the holder of a lost connection has to release it. */
const releaseGraceMs = 1000;

/**
 * Takes lost connections back that their holders do not release. Kysely releases the connection of a transaction only
 * when its commit or rollback succeeds, which never happens on a lost connection. Without this, each transaction that
 * meets a restart of Postgres costs the pool a connection for ever.
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
