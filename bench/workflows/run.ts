import { finished } from 'node:stream/promises';
import threads from 'node:worker_threads';
import { MemoryDriver } from '../../test/support/memory-driver.ts';
import { TestStack } from '../../test/support/test-stack.ts';
import { printTable } from '../table.ts';

/**
 * The heap of the control worker for each running sandbox, in the isolates of its workflows. `npm run bench --
 * workflows`
 */
const sandboxes = Number(process.env.BENCH_SANDBOXES ?? 200);
const atOnce = 20;

const workers: threads.Worker[] = [];
const { Worker } = threads;
// Temporal's worker makes its threads itself.
threads.Worker = class extends Worker {
  constructor(...args: ConstructorParameters<typeof Worker>) {
    super(...args);
    workers.push(this);
  }
};
const { startControlPlane } = await import('../../test/support/control-plane.ts');

const stack = await TestStack.listen();
process.env.TEST_STACK_SOCKET = stack.socket;
const plane = await startControlPlane({ driver: new MemoryDriver(), planName: 'enterprise' });
try {
  await start(atOnce);
  const before = await liveBytes();
  await start(sandboxes);
  const after = await liveBytes();
  const each = (after - before) / sandboxes / 1024;
  printTable('Heap of workflows in the control worker', [
    {
      measure: `${workers.length} isolates with ${atOnce} sandboxes`,
      value: (before / 2 ** 20).toFixed(1),
      unit: 'MiB',
    },
    { measure: `each of ${sandboxes} more`, value: each.toFixed(1), unit: 'KiB' },
  ]);
} finally {
  await plane.stop();
  await stack.stop();
}

async function start(count: number): Promise<void> {
  for (let done = 0; done < count; done += atOnce) {
    await Promise.all(
      Array.from({ length: atOnce }, async () => {
        await plane.commands.start(await plane.admit({ timeoutSeconds: 3600 }), { wait: true });
      }),
    );
  }
}

/** Live bytes after a garbage collection, with which a heap snapshot begins. */
async function liveBytes(): Promise<number> {
  let bytes = 0;
  for (const worker of workers) {
    await finished((await worker.getHeapSnapshot()).resume());
    bytes += (await worker.getHeapStatistics()).used_heap_size;
  }
  return bytes;
}
