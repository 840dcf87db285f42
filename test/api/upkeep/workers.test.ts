import { once } from 'node:events';
import net from 'node:net';
import { Client, Connection } from '@temporalio/client';
import { controlTaskQueues } from '../../../domain/task-queues.ts';
import { releaseVersion } from '../../../platform/config/release.ts';
import { readTaskQueueAges } from '../../../platform/temporal/task-queue-ages.ts';
import { WorkerDeployment } from '../../../platform/temporal/worker-deployment.ts';
import { testNamespace } from '../../support/stack.ts';
import { until } from '../../support/until.ts';
import type { Json } from '../contract-client.ts';
import { startApi, type TestApi } from '../test-api.ts';

const url = '/v1/admin/workers';
let client: Client;
let api: TestApi;
beforeAll(async () => {
  const { address, namespace } = await testNamespace();
  client = new Client({ connection: await Connection.connect({ address }), namespace });
  const deployment = new WorkerDeployment(client, 'the-platform');
  api = await startApi({
    readTaskQueueAges: () => readTaskQueueAges(client),
    readWorkerVersions: () => deployment.versions(),
  });
}, 120_000);
afterAll(async () => {
  await api?.stop();
  // A call that a closed connection ends is tried again by the client, and throws in its timer.
  polling.abort();
  await Promise.all(polls);
  await client?.connection.close();
});

const polling = new AbortController();
const polls: Promise<unknown>[] = [];
/** Asks for tasks of a queue as a worker does, until the end of the tests. */
function poll(taskQueue: string, buildId?: string): void {
  const versioned = buildId && {
    deploymentOptions: { deploymentName: 'the-platform', buildId, workerVersioningMode: 2 },
  };
  const request = {
    ...{ namespace: client.options.namespace, taskQueue: { name: taskQueue }, identity: `worker of ${taskQueue}` },
    ...versioned,
  };
  const ask = () => client.workflowService.pollWorkflowTaskQueue(request);
  const asked = client.connection.withDeadline(Date.now() + 90_000, () =>
    client.connection.withAbortSignal(polling.signal, ask),
  );
  polls.push(asked.catch(() => {}));
}

test('operators see how long tasks wait, who polls the queues, and the versions of the workers', async () => {
  const before = await api.send(api.root, 'GET', url);
  const { platform_version: version, task_queues: queues, worker_versions: versions } = before.body.data;
  expect([version, versions]).toEqual([releaseVersion, []]);
  expect(queues.map(({ work, kind }: Json) => `${work} ${kind}`).sort()).toEqual(
    Object.keys(controlTaskQueues)
      .flatMap((work) => [`${work} activity`, `${work} workflow`])
      .sort(),
  );
  for (const queue of queues) expect(queue).toMatchObject({ oldest_task_seconds: 0, pollers: 0 });

  await client.workflow.start('anything', { workflowId: 'a', taskQueue: controlTaskQueues.images });
  poll(controlTaskQueues.money);
  poll(controlTaskQueues.upkeep, '9.9.9');
  const find = (data: Json, work: string) =>
    data.task_queues.find((each: Json) => each.work === work && each.kind === 'workflow');
  await until(async () => {
    const { data } = (await api.send(api.root, 'GET', url)).body;
    return find(data, 'images').oldest_task_seconds > 0 && data.worker_versions.length === 1;
  });
  const { data } = (await api.send(api.root, 'GET', url)).body;
  expect(find(data, 'images')).toMatchObject({ task_queue: 'control/images', pollers: 0 });
  expect(find(data, 'money')).toMatchObject({ task_queue: 'control/money', oldest_task_seconds: 0, pollers: 1 });
  expect(data.worker_versions).toEqual([
    { build_id: '9.9.9', status: 'inactive', pinned_workflows: 0, current_since: null },
  ]);
}, 120_000);

test('workers without versions have none', async () => {
  const plain = await startApi();
  expect((await plain.send(plain.root, 'GET', url)).body.data.worker_versions).toBeNull();
  await plain.stop();
});

test('a Temporal that does not answer in time is 503', async () => {
  const sockets: net.Socket[] = [];
  const silent = net.createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const connection = Connection.lazy({ address: `127.0.0.1:${(silent.address() as net.AddressInfo).port}` });
  const away = await startApi({ readTaskQueueAges: () => readTaskQueueAges(new Client({ connection })) });
  const reply = await away.send(away.root, 'GET', url);
  expect([reply.status, reply.body.code]).toEqual([503, 'temporarily_unavailable']);
  await away.stop();
  await connection.close();
  silent.close();
  for (const socket of sockets) socket.destroy();
}, 60_000);

test('only operators may ask', async () => {
  const refused = await api.send(await api.addAccount(), 'GET', url);
  expect([refused.status, refused.body.code]).toEqual([403, 'admin_required']);
  expect((await api.send(null, 'GET', url)).status).toBe(401);
});
