import { Context } from '@temporalio/activity';

const heartbeatMs = 2000;

/** Heartbeats until the work is over: when its worker dies, another takes it over soon. For an activity with a `heartbeatTimeout`. */
export async function withHeartbeats<Result>(work: () => Promise<Result>): Promise<Result> {
  const context = Context.current();
  const beat = setInterval(() => context.heartbeat(), heartbeatMs);
  try {
    return await work();
  } finally {
    clearInterval(beat);
  }
}
