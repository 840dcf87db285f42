import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

/** How often one that waits asks, and one that has the seat proves that its connection lives. */
const everyMs = 1000;
/** The server ends a session whose client has been silent for about this long, and one that waits gets the seat. */
const keepalive = '-c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3';

export interface HostSeat {
  /** Gives the seat to one that waits. */
  leave(): Promise<void>;
}

/**
 * Waits until no other process works as this host: it has the seat as long as its session with Postgres lives (an
 * advisory lock).
 * @param options.timeoutMs an answer that takes longer ends the session; much less than the server needs to end it
 * @param options.onWait called once if another process has the seat
 * @param options.onLost called when the session has ended: another process may work as this host from now on
 * @throws {Error} when Postgres does not answer before the seat is taken
 */
export async function takeHostSeat(options: {
  databaseUrl: string;
  hostId: string;
  timeoutMs?: number;
  onWait: () => void;
  onLost: (error: Error) => void;
}): Promise<HostSeat> {
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
    async leave() {
      stopping.abort();
      await holding;
      await client.end();
    },
  };
}
