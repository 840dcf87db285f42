import { setTimeout as delay } from 'node:timers/promises';
import { isGrpcServiceError } from '@temporalio/client';
import { readSecrets } from '../../../db/open-secrets.ts';
import { createTemporalClient } from '../../../platform/temporal/client.ts';
import { WorkerDeployment } from '../../../platform/temporal/worker-deployment.ts';
import type { PlatformDatabase } from './database.ts';
import { flag, type OperatorCommand, OperatorError, reportProgress, required, text } from './operator-command.ts';

/** Operator commands for versions of control workers. */
export const workerVersionCommands: Record<string, OperatorCommand> = {
  'list-worker-versions': {
    usage: '',
    does: 'Lists versions of the control workers, newest first, and the open workflows pinned to each',
    options: {},
    run: (database) => withDeployment(database, (deployment) => deployment.versions()),
  },

  'set-worker-version': {
    usage: '--build B [--wait]',
    does: 'Makes a version current; --wait ends when all others are drained, which takes some minutes',
    options: { build: text, wait: flag },
    run: (database, values) =>
      withDeployment(database, async (deployment) => {
        const buildId = required(values, 'build');
        await requireVersion(deployment, buildId);
        await deployment.setCurrent(buildId);
        if (values.wait === true) await untilOthersAreDrained(deployment);
        return deployment.versions();
      }),
  },

  'release-pinned-workflows': {
    usage: '--build B',
    does: 'Moves the open workflows pinned to a version to the current version, if the old workers are gone',
    options: { build: text },
    run: (database, values) =>
      withDeployment(database, async (deployment) => {
        const buildId = required(values, 'build');
        await requireVersion(deployment, buildId);
        return { released: await deployment.releasePinned(buildId) };
      }),
  },
};

async function withDeployment<Result>(
  { orm, settings }: PlatformDatabase,
  act: (deployment: WorkerDeployment) => Promise<Result>,
): Promise<Result> {
  const name = settings.PLATFORM_WORKER_DEPLOYMENT;
  if (!name) throw new OperatorError('Workers are not versioned: PLATFORM_WORKER_DEPLOYMENT is not set');
  const client = createTemporalClient(settings, await readSecrets(orm, settings));
  try {
    return await act(new WorkerDeployment(client, name));
  } catch (error) {
    if (isGrpcServiceError(error)) throw new OperatorError(`Temporal: ${error.details}`);
    throw error;
  } finally {
    await client.connection.close();
  }
}

async function requireVersion(deployment: WorkerDeployment, buildId: string): Promise<void> {
  const known = (await deployment.versions()).map((version) => version.buildId);
  if (known.includes(buildId)) return;
  throw new OperatorError(`No worker has the version ${buildId}; there are: ${known.join(', ') || 'none'}`);
}

async function untilOthersAreDrained(deployment: WorkerDeployment): Promise<void> {
  let reported = '';
  for (;;) {
    const open = (await deployment.versions()).filter(({ status }) => status === 'draining');
    if (open.length === 0) return;
    const line = open.map(({ buildId, pinnedWorkflows }) => `${buildId}: ${pinnedWorkflows} open workflows`).join(', ');
    if (line !== reported) reportProgress(line);
    reported = line;
    await delay(1000);
  }
}
