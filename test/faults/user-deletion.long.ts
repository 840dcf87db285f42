import { expect, test } from '@jest/globals';
import proto from '@temporalio/proto';
import { User } from '../../db/accounts/user.entity.ts';
import type { UserId } from '../../domain/ids.ts';
import { workflowKinds } from '../../domain/workflow-registry.ts';
import { PlatformClient } from '../../ops/development/client/platform-client.ts';
import { until } from '../support/until.ts';
import type { FaultyPlatform } from './faulty-platform.ts';
import { small } from './transitions.ts';
import { withPlatform } from './with-platform.ts';

let platform: FaultyPlatform;

withPlatform((started) => {
  platform = started;
});

interface NewUser {
  user: { user_id: string; email: string };
  initial_password: string;
}

/** A user with an API key. */
async function newUser(name: string): Promise<{ userId: UserId; api: PlatformClient }> {
  const asked = { email: `${name}@example.com`, username: name, role: 'user' };
  const { user, initial_password: password } = (
    await platform.api.request<NewUser>('POST', '/v1/user-management/users', asked)
  ).body.data;
  const url = platform.settings.PLATFORM_URL!;
  const anyone = new PlatformClient(url, null);
  const session = await anyone.request<{ access_token: string }>('POST', '/v1/auth/sign-in', {
    email: user.email,
    password,
  });
  const authorization = `Bearer ${session.body.data.access_token}`;
  const key = await anyone.request<{ api_key: string }>('POST', '/v1/api-keys', { name: 'own' }, { authorization });
  return { userId: user.user_id as UserId, api: new PlatformClient(url, key.body.data.api_key) };
}

const remove = (userId: UserId) => platform.api.request('DELETE', `/v1/user-management/users/${userId}`);
const isGone = async (userId: UserId) => (await platform.orm.em.fork().count(User, { userId })) === 0;
const waitForResult = (userId: UserId) =>
  platform.temporal.workflow.getHandle(workflowKinds.userDeletion.workflowId(userId)).result();

/** The name of a local activity, as Temporal's library records it in a marker. */
function parseLocalActivity(note: Uint8Array | null | undefined): string {
  return /"activity_type":"(\w+)"/.exec(Buffer.from(note ?? []).toString())?.[1] ?? '';
}

/** Prints the history, one event per line, so that a person can see where the worker was killed. */
async function printHistory(userId: string): Promise<void> {
  const handle = platform.temporal.workflow.getHandle(workflowKinds.userDeletion.workflowId(userId));
  const { events } = await handle.fetchHistory();
  const lines = events!.map((event) => {
    const attributes = Object.values(event).find(
      (value): value is Record<string, { name?: string } & string> => typeof value === 'object' && 'identity' in value,
    );
    const what =
      event.activityTaskScheduledEventAttributes?.activityType?.name ??
      parseLocalActivity(event.markerRecordedEventAttributes?.details?.data?.payloads?.[0]?.data);
    const at = new Date(Number(event.eventTime!.seconds) * 1000).toISOString().slice(11, 19);
    const name = proto.temporal.api.enums.v1.EventType[event.eventType!]!.replace('EVENT_TYPE_', '').toLowerCase();
    return [at, name, what, attributes?.identity ?? ''].filter(Boolean).join('  ');
  });
  process.stdout.write(`the history of a deletion whose worker was killed twice\n${lines.join('\n')}\n`);
}

test('a deletion continues from the point at which its worker was killed', async () => {
  const { userId, api } = await newUser('killed');
  const { sandbox_id: sandboxId } = await api.createSandbox(small);
  // The request needs neither a worker nor Temporal.
  await platform.kill('worker');
  expect((await remove(userId)).status).toBe(202);
  expect((await api.request('GET', '/v1/users/me')).status).toBe(401);
  await platform.up('worker');
  await until(async () => (await platform.api.sandbox(sandboxId)).status !== 'running', 60_000);
  await platform.kill('worker');
  await platform.up('worker');
  await until(() => isGone(userId), 240_000);
  await waitForResult(userId);
  await printHistory(userId);
  expect(await platform.api.sandbox(sandboxId)).toMatchObject({ status: 'terminated' });
}, 400_000);

test('a deletion finishes while the host of a sandbox is down', async () => {
  const { userId, api } = await newUser('away');
  const { sandbox_id: sandboxId } = await api.createSandbox(small);
  await platform.kill('host');
  expect((await remove(userId)).status).toBe(202);
  await until(() => isGone(userId), 480_000);
  await waitForResult(userId);
  const { status } = await platform.api.sandbox(sandboxId);
  expect(['terminated', 'failed']).toContain(status);
  await platform.up('host');
}, 600_000);
