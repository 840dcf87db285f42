import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { Client, Connection, WithStartWorkflowOperation } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { inTurn, timed } from '../statistics.ts';
import { again, done, type floor } from './floor-workflows.ts';

Runtime.install({ logger: new DefaultLogger('ERROR') });

export interface TemporalFloor {
  /** Milliseconds of a bare update-with-start that waits for one activity. */
  start: number[];
  startConcurrent: number[];
  /** Milliseconds of a bare update with one activity. */
  update: number[];
  /** The single starts of `start`, to look them up in Temporal. */
  started: TracedStart[];
}

/** A started workflow, with the times of the caller's request and reply in Unix milliseconds. */
export interface TracedStart {
  workflowId: string;
  askedAtMs: number;
  repliedAtMs: number;
}

/** The time that the same Temporal server takes only for bookkeeping. */
export async function measureTemporalFloor(address: string, times: number, concurrent: number): Promise<TemporalFloor> {
  const taskQueue = `bench-${randomUUID()}`;
  const [connection, nativeConnection] = await Promise.all([
    Connection.connect({ address }),
    NativeConnection.connect({ address }),
  ]);
  const client = new Client({ connection });
  const worker = await Worker.create({
    connection: nativeConnection,
    taskQueue,
    workflowsPath: path.join(import.meta.dirname, 'floor-workflows.ts'),
    activities: { nothing: async () => {} },
  });
  const measured = await worker.runUntil(async () => {
    const startOne = (workflowId: string) =>
      timed(() =>
        client.workflow.executeUpdateWithStart(done, {
          startWorkflowOperation: new WithStartWorkflowOperation<typeof floor>('floor', {
            workflowId,
            taskQueue,
            workflowIdConflictPolicy: 'FAIL',
          }),
        }),
      );
    await startOne(randomUUID());
    const started: TracedStart[] = [];
    const start = await inTurn(times, async () => {
      const workflowId = randomUUID();
      const askedAtMs = Date.now();
      const elapsedMs = await startOne(workflowId);
      started.push({ workflowId, askedAtMs, repliedAtMs: Date.now() });
      return elapsedMs;
    });
    const update = await inTurn(times, (index) =>
      timed(() => client.workflow.getHandle(started[index]!.workflowId).executeUpdate(again)),
    );
    const startConcurrent = await Promise.all(Array.from({ length: concurrent }, () => startOne(randomUUID())));
    return { start, startConcurrent, update, started };
  });
  await Promise.all([connection.close(), nativeConnection.close()]);
  return measured;
}
