import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type Connection, isGrpcServiceError } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { searchAttributes } from './search-attributes.ts';

const names = Object.values(searchAttributes).map(({ name }) => name);

/** How long the history of a closed workflow is kept. */
const retention = '7 days';

/** Error codes of Temporal's API and of gRPC. */
const keyword = 2;
const alreadyExists = 6;

/**
 * Makes the namespace and its search attributes if they are missing. Resolves when a query by one of the attributes
 * finds a workflow, because until then a service of Temporal that does not know them yet could refuse a start.
 * @throws while Temporal is not ready; the call may be repeated
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

/** Adds the platform's search attributes to a namespace that lacks them. */
export async function addSearchAttributes(connection: Connection, namespace: string, missing = names): Promise<void> {
  await connection.operatorService.addSearchAttributes({
    namespace,
    searchAttributes: Object.fromEntries(missing.map((name) => [name, keyword])),
  });
}

/** Starts a workflow that no worker runs, waits until a query finds it, and deletes it. The deletion ends later. */
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
