import type { SandboxLifeView } from './messages.ts';

/** The workflow's current details, one line in the Temporal Web UI: the status and the next action. */
export function detailsOf({ status, reason, nextAction, nextDeadline, failure }: SandboxLifeView): string {
  const at = nextDeadline === null ? '' : minuteOf(nextDeadline);
  if (status === 'running') {
    return nextAction === 'auto_pause'
      ? `running; pauses at ${at} unless extended`
      : `running; ends at ${at} unless extended`;
  }
  const shown = reason === null || reason === 'user_requested' ? status : `${status} (${reason})`;
  if (status === 'paused') return `${shown}; ${at === '' ? 'kept without end' : `deleted at ${at} unless resumed`}`;
  return failure === null ? shown : `${shown}: ${failure}`;
}

/** @param time RFC 3339 in UTC */
const minuteOf = (time: string) => `${time.slice(0, 10)} ${time.slice(11, 16)} UTC`;
