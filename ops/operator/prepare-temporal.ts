import { setTimeout as delay } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { clientConnectionOptions } from '../../platform/temporal/client-connection-options.ts';
import { ensureNamespace } from '../../platform/temporal/namespace.ts';

/**
 * `node ops/operator/prepare-temporal.ts`: waits for the Temporal of `TEMPORAL_ADDRESS` and makes the platform's
 * namespace and search attributes there. For installations that start the processes one by one; `npm start` does this
 * itself.
 */
const address = process.env.TEMPORAL_ADDRESS || '127.0.0.1:7233';
const namespace = process.env.TEMPORAL_NAMESPACE || 'default';
const deadline = Date.now() + 120_000;
/** Each shard makes its changes of workflows one after the other. */
const recommendedShards = 512;
for (;;) {
  try {
    const connection = await Connection.connect(
      clientConnectionOptions({
        ...process.env,
        TEMPORAL_ADDRESS: address,
        TEMPORAL_TLS: ['1', 'true'].includes(process.env.TEMPORAL_TLS ?? ''),
      }),
    );
    await ensureNamespace(connection, namespace);
    const { historyShardCount: shards } = await connection.workflowService.getClusterInfo({});
    // Temporal Cloud has no number.
    if (shards && shards < recommendedShards) {
      console.warn(
        `Temporal has ${shards} history shards, which cannot be changed later; one that grows needs ${recommendedShards}`,
      );
    }
    await connection.close();
    break;
  } catch (error) {
    if (Date.now() > deadline) throw error;
    await delay(1000);
  }
}
console.log(`namespace ${namespace} on ${address} is ready`);
