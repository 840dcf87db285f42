import type { Orm } from '../../db/orm.ts';
import { dropOldWebhookPartitions } from '../../db/upkeep/maintenance.ts';
import type { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { inTurn, type Summary, summarize, timed } from '../statistics.ts';

const rows = 1_000_000;
const times = 300;

/** The cost of reading with a million deliveries of one webhook over four weeks, and the time to drop a week. */
export async function measureMillionRows(
  orm: Orm,
  api: PlatformClient,
): Promise<{ list: Summary; one: Summary; dropMs: number }> {
  const wanted = { url: 'https://example.com/', event_types: ['template.deleted'] };
  const made = await api.request<{ endpoint_id: string }>('POST', '/v1/webhooks', wanted);
  const { endpoint_id: endpointId } = made.body.data;
  const em = orm.em.fork();
  const today = "(now() at time zone 'UTC')::date";
  await em.execute(`select make_webhook_partitions(${today} - 35, ${today})`);
  for (let part = 0; part < 20; part += 1) {
    await em.execute(
      `insert into webhook_deliveries (delivery_id, created_at, endpoint_id, account_id, event_id, event_type, event_at, data,
         status, http_status_code, attempt_number, max_attempts, delivered_at, attempts, relay_at)
       select 'whd-bench' || n, now() - n * interval '2.6 seconds', ?, ?, 'evt-' || n, 'sandbox.started', now(),
         '{"sandbox_id": "sbx-5k2vq8m3w7xj4r6t9ypz", "status": "running", "sequence": 2}', 'delivered', 200, 1, 4, now(),
         '[{"startedAt": "2026-05-04T14:05:00.000Z", "durationMs": 5, "httpStatus": 200, "error": null, "reply": "ok"}]', null
         from generate_series(?::int, ?::int) n`,
      [endpointId, 'acc-bench', (part * rows) / 20 + 1, ((part + 1) * rows) / 20],
    );
  }
  await em.execute('analyze webhook_deliveries');
  const url = `/v1/webhooks/${endpointId}/deliveries`;
  const read = async (path: string) => {
    const { status } = await api.request('GET', path);
    if (status !== 200) throw new Error(`${path} answered ${status}`);
  };
  await inTurn(20, () => timed(() => read(url)));
  const list = await inTurn(times, () => timed(() => read(url)));
  const one = await inTurn(times, (index) => timed(() => read(`${url}/whd-bench${index * 3000 + 1}`)));
  const startedMs = performance.now();
  if ((await dropOldWebhookPartitions(orm.em, 21)) === 0) throw new Error('no partition was dropped');
  return { list: summarize(list), one: summarize(one), dropMs: performance.now() - startedMs };
}
