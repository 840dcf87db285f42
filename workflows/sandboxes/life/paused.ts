import { condition } from '@temporalio/workflow';
import { expiryWarningMs, persistenceExpiresAt } from '../../../domain/sandboxes/clock.ts';
import { rows } from './activities.ts';
import { shouldContinueAsNew } from './continue-as-new.ts';
import { fail } from './ending.ts';
import { diskLostFailure } from './failure.ts';
import type { SandboxState } from './state.ts';

/** Waits for the next event of a paused sandbox (request, report, warning or expiry) and acts on it. */
export async function stayPaused(state: SandboxState): Promise<void> {
  const { persistenceDays } = state.plan;
  const expiresMs = persistenceExpiresAt(new Date(state.pausedAtMs), persistenceDays)?.getTime() ?? null;
  const warnAtMs = expiresMs === null || state.expiryWarned ? null : expiresMs - expiryWarningMs(persistenceDays!);
  const wakeAtMs = warnAtMs ?? expiresMs;
  const hasEvent = () => hasRequest(state) || state.inbox.concerns(state.run) || shouldContinueAsNew(state);
  const woken =
    wakeAtMs === null
      ? await condition(hasEvent).then(() => true)
      : await condition(hasEvent, Math.max(1, wakeAtMs - Date.now()), {
          summary: warnAtMs === null ? 'expiry of the paused sandbox' : 'warning before the expiry',
        });
  if (hasRequest(state)) return;
  const report = state.inbox.take(state.run);
  if (report?.kind === 'diskLost') return fail(state, diskLostFailure);
  // A host under disk pressure freezes processes. The processes of a paused sandbox are frozen already.
  if (report && (report.kind !== 'diskPressure' || report.ended)) return loseMemory(state);
  if (woken || expiresMs === null) return;
  if (warnAtMs !== null) {
    await rows.warnOfExpiry(state.id, expiresMs);
    state.expiryWarned = true;
  } else state.end = { reason: 'persistence_expired', forget: false, requestId: null };
}

const hasRequest = ({ end, adoption, resume, restart }: SandboxState) =>
  [end, adoption, resume, restart].some((request) => request !== null);

/** The frozen processes are gone. A paused sandbox only promises its disk, and the disk is there. */
async function loseMemory(state: SandboxState): Promise<void> {
  state.memoryKept = false;
  await rows.recordMemoryLost(state.id);
}
