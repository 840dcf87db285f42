import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { Orm } from '../db/orm.ts';
import {
  type BoundSandbox,
  giveUpHost,
  type HostStanding,
  hostStanding,
  sandboxesBoundTo,
} from '../db/repositories/hosts.ts';

/** How often a host is looked at. */
const everyMs = 1000;
/** How long a host whose lease is over is still waited for. */
const patienceMs = 4000;
/**
 * The same, when whoever watches was itself away just now: after a restart of the platform, or of Postgres, hosts are
 * given time to come back as well.
 */
const patienceAfterGapMs = 60_000;
/** A look that takes longer, or comes later, is such a gap. */
const gapMs = 4000;

/**
 * What a host's workflow asks of the world. Watching is one long activity that heartbeats, so that a host costs no
 * history while nothing happens; when its worker dies, another looks on.
 */
export function createHostWatchActivities({ orm }: { orm: Orm }) {
  const look = (hostId: string) => withinGap(hostStanding(orm.em, hostId));

  return {
    /** Ends when the host did not renew its lease and is given up: from now on it cannot renew it. */
    async watchUntilLost(hostId: string): Promise<void> {
      const { cancellationSignal: signal } = Context.current();
      let lookedMs = performance.now();
      let patience = patienceAfterGapMs;
      let missedMs: number | null = null;
      for (;;) {
        Context.current().heartbeat();
        const standing: HostStanding | null = await look(hostId);
        const nowMs = performance.now();
        if (!standing || nowMs - lookedMs > gapMs) {
          patience = patienceAfterGapMs;
          missedMs = null;
        }
        lookedMs = nowMs;
        if (standing?.lost) return;
        if (standing?.isThere) {
          patience = patienceMs;
          missedMs = null;
        } else if (standing) {
          missedMs ??= nowMs;
          if (nowMs - missedMs >= patience && (await giveUpHost(orm.em, hostId))) return;
        }
        await delay(everyMs, undefined, { signal });
      }
    },

    /** Ends when a host that was given up has cleaned up and offers itself again. */
    async watchUntilBack(hostId: string): Promise<void> {
      const { cancellationSignal: signal } = Context.current();
      for (;;) {
        Context.current().heartbeat();
        const standing = await look(hostId);
        if (standing && !standing.lost) return;
        await delay(everyMs, undefined, { signal });
      }
    },

    /** The sandboxes that count on this host's processes. */
    sandboxesBoundTo(hostId: string): Promise<BoundSandbox[]> {
      return sandboxesBoundTo(orm.em, hostId);
    },
  };
}

export type { BoundSandbox };
export type HostWatchActivities = ReturnType<typeof createHostWatchActivities>;

/** Null: Postgres did not answer, or not in time. */
async function withinGap(answer: Promise<HostStanding>): Promise<HostStanding | null> {
  const timeout = new AbortController();
  const late = delay(gapMs, null, { signal: timeout.signal }).catch(() => null);
  try {
    return await Promise.race([answer, late]);
  } catch {
    // Which of Postgres' troubles it is makes no difference here, and others log it.
    return null;
  } finally {
    answer.catch(() => {});
    timeout.abort();
  }
}
