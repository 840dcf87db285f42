import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { Logger } from 'pino';
import type { SandboxMove, SandboxSubstatus } from '../../domain/sandboxes/state.ts';
import type { SandboxMetrics } from '../../platform/monitoring/sandbox-metrics.ts';
import { activityRequest, readRequestId } from '../../platform/temporal/request-id.ts';

/** A worker's reports on the lives of sandboxes in its log and its metrics. */
export interface LifeReports {
  onMove(move: SandboxMove): void;
  onStep(step: SandboxSubstatus, ms: number): void;
  activityInterceptor: ActivityInterceptorsFactory;
}

/**
 * Logs one info line for each change of a sandbox's status. The line has the id of the request that asked for the
 * change (`request_id`, absent if none did) and the id of the sandbox (`workflow_id`), as in the log of the API.
 * @param logWork also log one line for each activity; for hosts, whose activities are the work on a sandbox
 */
export function createLifeReports(deps: { logger: Logger; metrics: SandboxMetrics; logWork: boolean }): LifeReports {
  const { logger, metrics, logWork } = deps;
  const requestId = () => activityRequest.getStore() ?? undefined;
  return {
    onMove(move) {
      metrics.moved(move);
      const { sandboxId, hostId, from, status, reason } = move;
      const line = { request_id: requestId(), workflow_id: sandboxId, host_id: hostId, from, status, reason };
      logger.info(line, 'sandbox moved');
    },
    onStep: (step, ms) => metrics.stepped(step, ms),
    activityInterceptor: (context) => {
      const { activityType, workflowExecution, attempt } = context.info;
      return {
        inbound: {
          execute: (input, next) =>
            activityRequest.run(readRequestId(input.headers), async () => {
              const startedMs = performance.now();
              const report = (outcome: 'completed' | 'failed' | 'cancelled') => {
                const ms = performance.now() - startedMs;
                metrics.worked(activityType, outcome, ms);
                if (!logWork) return;
                const line = { request_id: requestId(), workflow_id: workflowExecution?.workflowId };
                logger.info({ ...line, activity: activityType, attempt, outcome, duration_ms: Math.round(ms) }, 'work');
              };
              try {
                const result = await next(input);
                report('completed');
                return result;
              } catch (error) {
                report(context.cancellationSignal.aborted ? 'cancelled' : 'failed');
                throw error;
              }
            }),
        },
      };
    },
  };
}
