import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { Orm } from '../db/orm.ts';
import {
  type BoundSandbox,
  giveUpHost,
  type HostStatus,
  hostStatus,
  sandboxesBoundTo,
} from '../db/repositories/hosts.ts';

/** Interval of the checks. */
const checkEveryMs = 1000;
/** How long after the end of its lease a host may still return. */
const graceMs = 4000;
/**
 * The same, after a gap in the checks: after a restart of the platform or of Postgres, hosts need time to return as
 * well.
 */
const graceAfterGapMs = 60_000;
/** A check that takes longer, or comes later, is a gap. */
const gapMs = 4000;

/**
 * The activities of a host's workflow. Watching is one long activity that heartbeats, so that a host adds nothing to the
 * history while nothing happens. When its worker dies, another worker continues.
 */
export function createHostWatchActivities({ orm }: { orm: Orm }) {
  const check = (hostId: string) => withinGap(hostStatus(orm.em, hostId));

  return {
    /** Returns when the host did not renew its lease and has been given up: it can no longer renew it. */
    async watchUntilLost(hostId: string): Promise<void> {
      const { cancellationSignal: signal } = Context.current();
      let checkedMs = performance.now();
      let grace = graceAfterGapMs;
      let missedMs: number | null = null;
      for (;;) {
        Context.current().heartbeat();
        const status: HostStatus | null = await check(hostId);
        const nowMs = performance.now();
        if (!status || nowMs - checkedMs > gapMs) {
          grace = graceAfterGapMs;
          missedMs = null;
        }
        checkedMs = nowMs;
        if (status?.lost) return;
        if (status?.isThere) {
          grace = graceMs;
          missedMs = null;
        } else if (status) {
          missedMs ??= nowMs;
          if (nowMs - missedMs >= grace && (await giveUpHost(orm.em, hostId))) return;
        }
        await delay(checkEveryMs, undefined, { signal });
      }
    },

    /** Returns when a host that was given up has cleaned up and offers itself again. */
    async watchUntilBack(hostId: string): Promise<void> {
      const { cancellationSignal: signal } = Context.current();
      for (;;) {
        Context.current().heartbeat();
        const status = await check(hostId);
        if (status && !status.lost) return;
        await delay(checkEveryMs, undefined, { signal });
      }
    },

    /** The sandboxes that have processes on this host, or are about to. */
    sandboxesBoundTo(hostId: string): Promise<BoundSandbox[]> {
      return sandboxesBoundTo(orm.em, hostId);
    },
  };
}

export type { BoundSandbox };
export type HostWatchActivities = ReturnType<typeof createHostWatchActivities>;

/** @returns null when Postgres did not answer in time */
async function withinGap(answer: Promise<HostStatus>): Promise<HostStatus | null> {
  const timeout = new AbortController();
  const late = delay(gapMs, null, { signal: timeout.signal }).catch(() => null);
  try {
    return await Promise.race([answer, late]);
  } catch {
    // Every error of Postgres counts alike here; the database client logs it.
    return null;
  } finally {
    answer.catch(() => {});
    timeout.abort();
  }
}
