import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import type { AccountId } from '../../domain/ids.ts';
import { firstAttemptLimits } from '../../integrations/webhooks/in-flight.ts';
import { until } from '../support/until.ts';
import { type FaultyPlatform, partNames } from './faulty-platform.ts';
import { WebhookFlood } from './webhook-flood.ts';
import { withPlatform } from './with-platform.ts';

/** Every process is killed in turn while events are sent. Then Postgres and Temporal are down for a while. */
const events = Number(process.env.FAULTS_EVENTS ?? 10_000);
const seconds = Number(process.env.FAULTS_SECONDS ?? 10);
let platform: FaultyPlatform;

withPlatform((started) => {
  platform = started;
});

async function startFlood(): Promise<WebhookFlood> {
  const me = (await platform.api.request<{ account_id: AccountId }>('GET', '/v1/users/me')).body.data;
  return WebhookFlood.start(platform.orm, me.account_id, async (url) => {
    const wanted = { url, event_types: ['template.*'], scope: 'account', timeout_seconds: 5 };
    expect((await platform.api.request('POST', '/v1/webhooks', wanted)).status).toBe(201);
  });
}

test('each event reaches each healthy endpoint at least once while every process is killed in turn', async () => {
  const flood = await startFlood();
  let isSending = true;
  const sending = flood.send(events, 5).finally(() => {
    isSending = false;
  });
  const killed = new Map<string, number>();
  const atKills: { held: number; arrived: number }[] = [];
  for (let kill = 0; isSending || kill < partNames.length; kill += 1) {
    const name = partNames[kill % partNames.length]!;
    await delay(500 + Math.random() * 1000);
    await platform.kill(name);
    if (name === 'worker') atKills.push(await flood.atKill());
    await platform.up(name);
    killed.set(name, (killed.get(name) ?? 0) + 1);
  }
  await sending;
  await platform.untilReady();
  await until(() => flood.missing() === 0, 2_400_000, 500);
  process.stdout.write(
    `webhooks: kills ${JSON.stringify(Object.fromEntries(killed))}, ${flood.committed.size} events to ` +
      `${flood.healthy.length} healthy endpoints, 0 lost, ${flood.duplicates()} duplicates; ` +
      `at kills of the worker ${JSON.stringify(atKills)}, at most ${firstAttemptLimits.perAccount} each\n`,
  );
  for (const { arrived } of atKills) expect(arrived).toBeLessThanOrEqual(firstAttemptLimits.perAccount);
  await flood.stop();
  await platform.orm.em.fork().execute('delete from webhook_endpoints');
}, 3_600_000);

test.each(['postgres', 'temporal'] as const)(
  'nothing is lost while %s is down',
  async (part) => {
    const flood = await startFlood();
    const sending = flood.send(200, 20);
    await until(() => flood.committed.size > 50);
    await platform.kill(part);
    await delay(seconds * 1000);
    await platform.up(part);
    await platform.untilReady();
    await sending;
    await until(() => flood.missing() === 0, 300_000, 500);
    process.stdout.write(`webhooks: ${part} away for ${seconds} s, 0 lost, ${flood.duplicates()} duplicates\n`);
    await flood.stop();
    await platform.orm.em.fork().execute('delete from webhook_endpoints');
  },
  600_000,
);
