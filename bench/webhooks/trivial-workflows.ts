import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import pLimit from 'p-limit';

Runtime.install({ logger: new DefaultLogger('ERROR') });

/** The number of workflows with one activity each that the server completes per second. */
export async function trivialWorkflowsPerSecond(address: string, count: number): Promise<number> {
  const taskQueue = `bench-${randomUUID()}`;
  const [connection, nativeConnection] = await Promise.all([
    Connection.connect({ address }),
    NativeConnection.connect({ address }),
  ]);
  const client = new Client({ connection });
  const worker = await Worker.create({
    connection: nativeConnection,
    taskQueue,
    workflowsPath: path.join(import.meta.dirname, 'trivial-workflow.ts'),
    activities: { nothing: async () => {} },
  });
  const perSecond = await worker.runUntil(async () => {
    const run = () => client.workflow.execute('trivial', { workflowId: randomUUID(), taskQueue });
    await run();
    const limit = pLimit(50);
    const startedMs = performance.now();
    await Promise.all(Array.from({ length: count }, () => limit(run)));
    return (count * 1000) / (performance.now() - startedMs);
  });
  await Promise.all([connection.close(), nativeConnection.close()]);
  return perSecond;
}
