import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { type BoundSandbox, giveUpHost, type HostStatus, hostStatus, sandboxesBoundTo } from '../../db/hosts/hosts.ts';
import type { Orm } from '../../db/orm.ts';
import type { SandboxId } from '../../domain/ids.ts';

/** The interval of the checks. */
const checkEveryMs = 1000;
/** How long after the end of its lease a host may still return. */
const graceMs = 4000;
/**
 * The same after a gap in the checks. After a restart of the platform or of Postgres, hosts also need time to return.
 */
const graceAfterGapMs = 60_000;
/** A check that takes longer than this, or begins this much later, is a gap. */
const gapMs = 4000;

/**
 * The activities of a host's workflow. The watch is one long activity with heartbeats, so that an uneventful host adds
 * nothing to the history. If its worker dies, another worker continues it.
 */
export function createHostWatchActivities({ orm }: { orm: Orm }) {
  const check = (hostId: string) => withinGap(hostStatus(orm.em, hostId));

  return {
    /** Returns when the host has not renewed its lease and was given up. It can no longer renew the lease. */
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

    /** Returns when the given-up host has cleaned up and offers itself again. */
    async watchUntilBack(hostId: string): Promise<void> {
      const { cancellationSignal: signal } = Context.current();
      for (;;) {
        Context.current().heartbeat();
        const status = await check(hostId);
        if (status && !status.lost) return;
        await delay(checkEveryMs, undefined, { signal });
      }
    },

    /** The sandboxes that have processes on this host, or will soon have. @param page one page of them, by id */
    sandboxesBoundTo(hostId: string, page: { after: SandboxId | null; limit: number }): Promise<BoundSandbox[]> {
      return sandboxesBoundTo(orm.em, hostId, page);
    },
  };
}

export type { BoundSandbox };
export type HostWatchActivities = ReturnType<typeof createHostWatchActivities>;

/** @returns null when Postgres did not reply in time */
async function withinGap(answer: Promise<HostStatus>): Promise<HostStatus | null> {
  const timeout = new AbortController();
  const late = delay(gapMs, null, { signal: timeout.signal }).catch(() => null);
  try {
    return await Promise.race([answer, late]);
  } catch {
    // All errors of Postgres have the same effect here. The database client logs them.
    return null;
  } finally {
    answer.catch(() => {});
    timeout.abort();
  }
}
