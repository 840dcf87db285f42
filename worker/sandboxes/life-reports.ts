import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { ObserveDirectWork } from '../../activities/sandboxes/moves.ts';
import type { SandboxMove, SandboxSubstatus } from '../../domain/sandboxes/state.ts';
import type { SandboxMetrics } from '../../platform/monitoring/sandbox-metrics.ts';
import { activityRequest, readRequestId } from '../../platform/temporal/request-id.ts';

/** A worker's reports on the lives of sandboxes in its log and its metrics. */
export interface LifeReports {
  onMove(move: SandboxMove): void;
  onStep(step: SandboxSubstatus, ms: number): void;
  activityInterceptor: ActivityInterceptorsFactory;
  observeDirectWork: ObserveDirectWork;
}

/**
 * Logs one info line for each change of a sandbox's status. The line has the id of the request that asked for the
 * change (`request_id`, absent if none did) and the id of the sandbox (`workflow_id`), as in the log of the API.
 * @param logWork also log one line for each activity; for hosts, whose activities are the work on a sandbox
 */
export function createLifeReports(deps: { logger: Logger; metrics: SandboxMetrics; logWork: boolean }): LifeReports {
  const { logger, metrics, logWork } = deps;
  const requestId = () => activityRequest.getStore() ?? undefined;
  const observe = <T>(
    { workflowId, activity, attempt }: { workflowId: string | undefined; activity: string; attempt: number },
    request: string | null,
    work: () => Promise<T>,
    isCancelled: () => boolean,
  ): Promise<T> =>
    activityRequest.run(request, async () => {
      const startedMs = performance.now();
      const report = (outcome: 'completed' | 'failed' | 'cancelled') => {
        const ms = performance.now() - startedMs;
        metrics.worked(activity, outcome, ms);
        if (!logWork) return;
        const line = { request_id: requestId(), workflow_id: workflowId };
        logger.info({ ...line, activity, attempt, outcome, duration_ms: Math.round(ms) }, 'work');
      };
      try {
        const result = await work();
        report('completed');
        return result;
      } catch (error) {
        report(isCancelled() ? 'cancelled' : 'failed');
        throw error;
      }
    });
  return {
    onMove(move) {
      metrics.moved(move);
      const { sandboxId, hostId, from, status, reason } = move;
      const line = { request_id: requestId(), workflow_id: sandboxId, host_id: hostId, from, status, reason };
      logger.info(line, 'sandbox moved');
    },
    onStep: (step, ms) => metrics.stepped(step, ms),
    activityInterceptor: (context) => {
      const { activityType: activity, workflowExecution, attempt } = context.info;
      const work = { activity, attempt, workflowId: workflowExecution?.workflowId };
      const isCancelled = () => context.cancellationSignal.aborted;
      return {
        inbound: {
          execute: (input, next) => observe(work, readRequestId(input.headers), () => next(input), isCancelled),
        },
      };
    },
    observeDirectWork: ({ activity, sandboxId: workflowId, requestId }, run) =>
      observe({ activity, attempt: 1, workflowId }, requestId, run, () => false),
  };
}
