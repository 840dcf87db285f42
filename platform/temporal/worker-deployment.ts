import { setTimeout as delay } from 'node:timers/promises';
import { type Client, isGrpcServiceError } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';

/** `VERSION_DRAINAGE_STATUS_DRAINED` of Temporal's API. */
const drained = 2;

/** Error codes of gRPC. */
const deadlineExceeded = 4;
const notFound = 5;
const failedPrecondition = 9;

/** The time in which a worker that has started polls all of its task queues. */
const allQueuesPolledMs = 30_000;
const retryMs = 500;

/** A version of the workers of a deployment. */
export interface WorkerVersion {
  buildId: string;
  /**
   * `current`: new workflows, and workflows that upgrade automatically, run on it. `draining`: pinned workflows that
   * began on it are open, so keep its workers. `drained`: its workers may be stopped. `inactive`: it has never been
   * current.
   */
  status: 'current' | 'draining' | 'drained' | 'inactive';
  /** The number of open workflows that are pinned to it. */
  pinnedWorkflows: number;
  /** RFC 3339. The time when it became current. Null: it is not current. */
  currentSince: string | null;
}

type VersionSummary = temporal.api.deployment.v1.WorkerDeploymentInfo.IWorkerDeploymentVersionSummary;

/** Temporal's data about the worker deployment of a platform. */
export class WorkerDeployment {
  readonly #client: Client;
  readonly #name: string;

  constructor(client: Client, deploymentName: string) {
    this.#client = client;
    this.#name = deploymentName;
  }

  /** The versions, newest first. Empty: no worker of the deployment has ever polled. */
  async versions(): Promise<WorkerVersion[]> {
    const found = await this.#describe();
    const summaries = found?.info.versionSummaries ?? [];
    const madeMs = ({ createTime: at }: VersionSummary) => Number(at?.seconds ?? 0) * 1000 + (at?.nanos ?? 0) / 1e6;
    const sorted = [...summaries].sort((a, b) => madeMs(b) - madeMs(a));
    return Promise.all(
      sorted.map(async (summary) => {
        const buildId = summary.deploymentVersion!.buildId!;
        const status = deriveStatus(summary, found!.current);
        const since = status === 'current' ? summary.currentSinceTime : null;
        return {
          buildId,
          status,
          pinnedWorkflows: (await this.#client.workflow.count(this.#pinnedTo(buildId))).count,
          currentSince: since ? new Date(Number(since.seconds) * 1000).toISOString() : null,
        };
      }),
    );
  }

  /**
   * Makes a version current: new workflows, and workflows that upgrade automatically, run on its workers. Waits for
   * workers that have just started, because Temporal refuses a version that does not poll each task queue yet, and for
   * a busy Temporal, which changes the task queues one after the other.
   * @throws a gRPC error when none of its workers polls
   */
  async setCurrent(buildId: string): Promise<void> {
    for (const endMs = Date.now() + allQueuesPolledMs; ; ) {
      try {
        await this.#setCurrent(buildId, null);
        return;
      } catch (error) {
        const isEarly = hasCode(error, failedPrecondition) || hasCode(error, deadlineExceeded);
        if (!isEarly || Date.now() > endMs) throw error;
      }
      await delay(retryMs);
    }
  }

  /**
   * Makes a version current if none is, so that the first workers of a deployment get work without an operator.
   * @returns `unknown` when Temporal does not know the version yet and the caller should retry; `other` when another
   * version is current
   */
  async setFirst(buildId: string): Promise<'current' | 'other' | 'unknown'> {
    const found = await this.#describe();
    if (found?.current) return found.current === buildId ? 'current' : 'other';
    const isKnown = found?.info.versionSummaries?.some(
      ({ deploymentVersion }) => deploymentVersion?.buildId === buildId,
    );
    if (!isKnown) return 'unknown';
    try {
      await this.#setCurrent(buildId, found!.conflictToken);
      return 'current';
    } catch (error) {
      // Another worker was faster. The next call reads which version is current.
      if (hasCode(error, failedPrecondition)) return 'unknown';
      throw error;
    }
  }

  /**
   * Moves the open workflows that are pinned to a version to the current one.
   * @returns the number of moved workflows
   */
  async releasePinned(buildId: string): Promise<number> {
    let released = 0;
    for await (const { workflowId, runId } of this.#client.workflow.list({ query: this.#pinnedTo(buildId) })) {
      try {
        await this.#client.workflowService.updateWorkflowExecutionOptions({
          namespace: this.#client.options.namespace,
          workflowExecution: { workflowId, runId },
          workflowExecutionOptions: { versioningOverride: { autoUpgrade: true } },
          updateMask: { paths: ['versioning_override'] },
        });
        released++;
      } catch (error) {
        // The workflow has ended meanwhile.
        if (!hasCode(error, notFound)) throw error;
      }
    }
    return released;
  }

  #pinnedTo(buildId: string): string {
    const version = `${this.#name}:${buildId}`;
    return `TemporalWorkerDeploymentVersion = '${version}' and TemporalWorkflowVersioningBehavior = 'Pinned' and ExecutionStatus = 'Running'`;
  }

  async #setCurrent(buildId: string, conflictToken: Uint8Array | null): Promise<void> {
    await this.#client.workflowService.setWorkerDeploymentCurrentVersion({
      namespace: this.#client.options.namespace,
      deploymentName: this.#name,
      buildId,
      conflictToken,
      identity: 'sandbox-platform',
    });
  }

  /** Null: the deployment is unknown to Temporal. */
  async #describe() {
    try {
      const { workerDeploymentInfo, conflictToken } = await this.#client.workflowService.describeWorkerDeployment({
        namespace: this.#client.options.namespace,
        deploymentName: this.#name,
      });
      const current = workerDeploymentInfo!.routingConfig?.currentDeploymentVersion?.buildId || null;
      return { info: workerDeploymentInfo!, conflictToken: conflictToken!, current };
    } catch (error) {
      if (hasCode(error, notFound)) return null;
      throw error;
    }
  }
}

/** Temporal counts open workflows every few minutes. Until it has counted, a version that was current is draining. */
function deriveStatus(summary: VersionSummary, current: string | null): WorkerVersion['status'] {
  if (summary.deploymentVersion!.buildId === current) return 'current';
  if (summary.drainageStatus === drained) return 'drained';
  return summary.firstActivationTime ? 'draining' : 'inactive';
}

const hasCode = (error: unknown, code: number) => isGrpcServiceError(error) && (error.code as number) === code;
