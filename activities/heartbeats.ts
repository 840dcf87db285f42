import { Context } from '@temporalio/activity';

const heartbeatMs = 2000;

/**
 * Sends heartbeats until the work ends, so that another worker soon takes over after a worker's death. For an activity
 * with a `heartbeatTimeout`.
 * @param work its signal is aborted when Temporal does not wait for the activity any more
 */
export async function withHeartbeats<Result>(work: (cancelled: AbortSignal) => Promise<Result>): Promise<Result> {
  const context = Context.current();
  const beat = setInterval(() => context.heartbeat(), heartbeatMs);
  try {
    return await work(context.cancellationSignal);
  } finally {
    clearInterval(beat);
  }
}
