import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

/** How often a waiting process asks for the lock, and how often the process with the lock checks its connection. */
const everyMs = 1000;
/** The server ends a session after about this much silence of its client. Then a waiting process gets the lock. */
const keepalive = '-c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3';

export interface HostLock {
  /** Gives the lock to a waiting process. */
  release(): Promise<void>;
}

/**
 * Waits until no other process acts as this host. A process has the lock while its session with Postgres lives (an
 * advisory lock).
 * @param options.timeoutMs a statement that takes longer ends the session; this must be much shorter than the time in
 * which the server ends it
 * @param options.onWait called once if another process has the lock
 * @param options.onLost called when the session has ended: from now on another process may act as this host
 * @throws {Error} when Postgres does not answer before the lock is taken
 */
export async function acquireHostLock(options: {
  databaseUrl: string;
  hostId: string;
  timeoutMs?: number;
  onWait: () => void;
  onLost: (error: Error) => void;
}): Promise<HostLock> {
  const { databaseUrl, hostId, timeoutMs = 5000, onWait, onLost } = options;
  const client = new Client({
    connectionString: databaseUrl,
    application_name: 'host_seat',
    keepAlive: true,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
    options: keepalive,
  });
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => {});
  client.on('error', ended.reject);
  client.on('end', () => ended.reject(new Error('the session with Postgres has ended')));
  const stopping = new AbortController();
  const ask = async (text: string, values: readonly string[] = []) =>
    (await Promise.race([client.query<{ taken: boolean }>(text, [...values]), ended.promise])).rows[0];
  try {
    await client.connect();
    let hasWaited = false;
    while (!(await ask('select pg_try_advisory_lock(hashtextextended($1, 0)) as taken', [`host ${hostId}`]))?.taken) {
      if (!hasWaited) onWait();
      hasWaited = true;
      await sleep(everyMs);
    }
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
  const hold = async () => {
    for (;;) {
      await Promise.race([sleep(everyMs, undefined, { signal: stopping.signal }), ended.promise]);
      await ask('select true as taken');
    }
  };
  const holding = hold().catch((error) => {
    if (!stopping.signal.aborted) onLost(error);
  });
  return {
    async release() {
      stopping.abort();
      await holding;
      await client.end();
    },
  };
}
