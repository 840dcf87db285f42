import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type Connection, isGrpcServiceError } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { searchAttributes } from './search-attributes.ts';

const names = Object.values(searchAttributes).map(({ name }) => name);

/** How long the history of a finished workflow can be read. */
const retention = '7 days';

/** Error codes of Temporal's API and of gRPC. */
const keyword = 2;
const alreadyExists = 6;

/**
 * Makes the namespace and its search attributes unless they are there. Resolves when a workflow started in it with one
 * of them can be found by it, so that no later start is refused by a service that has not heard of them yet.
 * @throws while Temporal is not ready; safe to call again
 */
export async function ensureNamespace(connection: Connection, namespace: string): Promise<void> {
  try {
    await connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs(retention),
    });
  } catch (error) {
    if (!isGrpcServiceError(error) || error.code !== alreadyExists) throw error;
  }
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  const missing = names.filter((name) => !(name in (customAttributes ?? {})));
  if (missing.length === 0) return;
  await addSearchAttributes(connection, namespace, missing);
  await untilFoundBySearchAttribute(connection, namespace);
}

/** Adds the platform's search attributes to a namespace that has none of them. */
export async function addSearchAttributes(connection: Connection, namespace: string, missing = names): Promise<void> {
  await connection.operatorService.addSearchAttributes({
    namespace,
    searchAttributes: Object.fromEntries(missing.map((name) => [name, keyword])),
  });
}

/** Starts a workflow that no worker runs, waits until a query finds it, and has it removed, which takes a minute. */
async function untilFoundBySearchAttribute(connection: Connection, namespace: string): Promise<void> {
  const client = new Client({ connection, namespace });
  const probeId = `namespace-probe-${randomUUID()}`;
  const deadline = Date.now() + 30_000;
  const retrying = async <Result>(attempt: () => Promise<Result | undefined>): Promise<Result> => {
    for (;;) {
      let refusal: unknown;
      try {
        const result = await attempt();
        if (result !== undefined) return result;
      } catch (error) {
        refusal = error;
      }
      if (Date.now() > deadline) throw new Error(`Temporal namespace ${namespace} is not usable`, { cause: refusal });
      await delay(50);
    }
  };
  const handle = await retrying(() =>
    client.workflow.start('namespaceProbe', {
      workflowId: probeId,
      taskQueue: probeId,
      typedSearchAttributes: [{ key: searchAttributes.accountId, value: probeId }],
    }),
  );
  await retrying(async () => {
    const { count } = await client.workflow.count(`AccountId = '${probeId}'`);
    return count > 0 || undefined;
  });
  await handle.terminate();
  await connection.workflowService.deleteWorkflowExecution({
    namespace,
    workflowExecution: { workflowId: probeId, runId: handle.firstExecutionRunId },
  });
}
