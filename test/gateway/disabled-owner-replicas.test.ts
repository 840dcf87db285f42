import { once } from 'node:events';
import http from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { createOrm, type Orm } from '../../db/orm.ts';
import { Sandbox } from '../../db/sandboxes/sandbox.entity.ts';
import { RouteCache } from '../../gateway/route-cache.ts';
import { PostgresRouteChanges } from '../../gateway/route-changes.ts';
import { createSandboxRouteSource } from '../../gateway/sandbox-route-source.ts';
import { deriveSecrets } from '../../platform/config/secrets.ts';
import { startApi, type TestApi } from '../api/test-api.ts';
import { until } from '../support/until.ts';
import { send } from './client.ts';
import { formatHost, type StartedGateway, startGateway } from './started-gateway.ts';
import { startHttpUpstream } from './upstream-server.ts';

const [publicPort, privatePort] = [3000, 3001];
const logger = pino({ level: 'silent' });
let api: TestApi;
let sandbox: Awaited<ReturnType<typeof startHttpUpstream>>;
const replicas: { gateway: StartedGateway; changes: PostgresRouteChanges; orm: Orm }[] = [];

beforeAll(async () => {
  api = await startApi();
  sandbox = await startHttpUpstream((request, response) => {
    response.write('begun ');
    if (request.url !== '/endless') response.end('and ended');
  });
  for (let index = 0; index < 2; index++) {
    const orm = await createOrm(api.settings.DATABASE_URL, 2);
    const changes = new PostgresRouteChanges({ databaseUrl: api.settings.DATABASE_URL, logger });
    const source = createSandboxRouteSource(orm, deriveSecrets(api.settings));
    const gateway = await startGateway({ routes: new RouteCache(source, changes) });
    changes.start();
    replicas.push({ gateway, changes, orm });
  }
  await until(async () => replicas.every(({ changes }) => changes.live));
});
afterAll(async () => {
  for (const { gateway, changes, orm } of replicas) {
    await gateway.stop();
    await changes.close();
    await orm.close();
  }
  await sandbox?.stop();
  await api?.stop();
});

test('private ports of a disabled user close at once at every gateway, public ones stay, and enabling opens them', async () => {
  const member = await api.addUser(api.root);
  const { sandbox_id: sandboxId } = (await api.send(member, 'POST', '/v1/sandboxes', {})).body.data;
  const port = (port: number, isProtected: boolean) => ({
    ...{ port, isProtected, name: `port ${port}`, servicePort: sandbox.port, protocol: 'TCP' as const },
  });
  const customPorts = [port(publicPort, false), port(privatePort, true)];
  await api.orm.em.fork().nativeUpdate(Sandbox, { sandboxId }, { agentAddress: sandbox.address, customPorts });
  const headers = { 'x-access-token': deriveSecrets(api.settings).agentToken(sandboxId, 1) };
  const to = (gateway: StartedGateway, port: number) => ({
    port: gateway.port,
    headers: { ...headers, host: formatHost(sandboxId, port) },
  });
  const setStatus = async (status: string) => {
    const url = `/v1/user-management/users/${member.userId}`;
    expect((await api.send(api.root, 'PUT', url, { status })).status).toBe(200);
  };
  const readStatuses = (port: number) =>
    Promise.all(
      replicas.map(async ({ gateway }) => {
        const reply = await send({ port: gateway.port, host: formatHost(sandboxId, port), headers });
        return `${reply.status} ${reply.status === 200 ? reply.text : reply.json.code}`;
      }),
    );
  const served = ['200 begun and ended', '200 begun and ended'];
  expect([await readStatuses(publicPort), await readStatuses(privatePort)]).toEqual([served, served]);
  const ends = replicas.map(async ({ gateway }) => {
    const request = http.get({ ...to(gateway, privatePort), path: '/endless' });
    const [reply] = (await once(request, 'response')) as [http.IncomingMessage];
    const ended = new Promise((resolve) => reply.once('close', resolve));
    reply.on('error', () => undefined).resume();
    return { ended };
  });
  const open = await Promise.all(ends);

  await setStatus('disabled');
  await Promise.all(open.map(({ ended }) => ended));
  expect(await readStatuses(privatePort)).toEqual(['403 owner_disabled', '403 owner_disabled']);
  expect(await readStatuses(publicPort)).toEqual(served);

  await setStatus('enabled');
  await until(async () => (await readStatuses(privatePort)).join() === served.join());
});
