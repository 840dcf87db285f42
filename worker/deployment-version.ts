import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { Logger } from 'pino';
import { releaseVersion } from '../platform/config/release.ts';
import type { Settings } from '../platform/config/settings.ts';
import { WorkerDeployment } from '../platform/temporal/worker-deployment.ts';
import { hashSources } from './workflow-bundle.ts';

/**
 * The version of this code's workers. Its build id consists of the release's number and a hash of the workflows'
 * sources, so a release with unchanged workflows keeps the version of the previous one.
 * @returns null when workers have no versions here
 */
export function workerVersion({
  PLATFORM_WORKER_DEPLOYMENT: deploymentName,
}: Pick<Settings, 'PLATFORM_WORKER_DEPLOYMENT'>): WorkerDeploymentVersion | null {
  if (!deploymentName) return null;
  return { deploymentName, buildId: `${releaseVersion}-${hashSources().slice(0, 12)}` };
}

/**
 * Makes the version of a polling worker current if no version is current. Otherwise the operator decides. Resolves when
 * a version is current, or at the signal.
 */
export async function takeFirstWork(
  client: Client,
  { deploymentName, buildId }: WorkerDeploymentVersion,
  logger: Logger,
  stopping: AbortSignal,
): Promise<void> {
  const deployment = new WorkerDeployment(client, deploymentName);
  for (let waitMs = 200; !stopping.aborted; waitMs = Math.min(waitMs * 1.5, 10_000)) {
    try {
      const outcome = await deployment.setFirst(buildId);
      if (outcome === 'other') {
        logger.warn(
          { version: buildId },
          'another version of workers is current; this worker gets no new work until its own version is',
        );
      }
      if (outcome !== 'unknown') return;
    } catch (error) {
      logger.warn({ err: error, version: buildId }, 'the current version of workers could not be read or set');
    }
    // The delay ends early when the worker stops.
    await delay(waitMs, undefined, { signal: stopping }).catch(() => {});
  }
}
