import { condition } from '@temporalio/workflow';
import { nextWarning } from '../../../domain/sandboxes/timeout-warnings.ts';
import { rows } from './activities.ts';
import { shouldContinueAsNew } from './continue-as-new.ts';
import { fail } from './ending.ts';
import { diskLostFailure, exitFailure } from './failure.ts';
import { hostLostFailure } from './host-reports.ts';
import type { HostReport } from './messages.ts';
import type { SandboxState } from './state.ts';

/** Waits for the next event of a running sandbox (request, report, warning, timeout or a full hour) and acts on it. */
export async function stayRunning(state: SandboxState): Promise<void> {
  const revision = state.timeoutRevision;
  const deadlineMs = state.deadlineMs();
  const warning = nextWarning(deadlineMs, state.timeoutSeconds, Date.now());
  const waitMs = Math.max(1, warning?.inMs ?? deadlineMs - Date.now());
  const usageDueMs = usageDueIn(state, waitMs);
  const woken = await condition(
    () =>
      hasRequest(state) ||
      state.inbox.concerns(state.run) ||
      state.hostLoss.happened ||
      state.timeoutRevision !== revision ||
      shouldContinueAsNew(state),
    usageDueMs ?? waitMs,
    { summary: usageDueMs === null ? timerSummary(warning, state.plan.autoPause) : 'usage of the last hour' },
  );
  if (hasRequest(state)) return;
  if (state.hostLoss.happened) return fail(state, hostLostFailure);
  const report = state.inbox.take(state.run);
  if (report) return actOnReport(state, report);
  if (woken) return;
  if (usageDueMs !== null) return recordUsage(state);
  if (warning) await rows.warnOfTimeout(state.id, deadlineMs, warning.beforeSeconds);
  else if (state.plan.autoPause) state.requestPause('auto_pause', false);
  else state.end = { reason: 'timeout', forget: false, requestId: null };
}

/** The text beside the timer in the Temporal Web UI. */
function timerSummary(warning: ReturnType<typeof nextWarning>, autoPause: boolean): string {
  if (warning) return `warning ${warning.beforeSeconds} s before the timeout`;
  return autoPause ? 'auto-pause' : 'timeout';
}

const hasRequest = ({ end, adoption, pause, restart }: SandboxState) =>
  [end, adoption, pause, restart].some((request) => request !== null);

async function actOnReport(state: SandboxState, report: HostReport): Promise<void> {
  switch (report.kind) {
    case 'diskLost':
      return fail(state, diskLostFailure);
    case 'exited':
      return fail(state, exitFailure(report.exit));
    case 'memoryLost':
      return afterHostRestart(state, Date.parse(report.at));
    case 'diskPressure':
      if (report.ended) return afterDiskPressure(state);
      state.requestPause('host_disk_pressure', false);
  }
}

/** The host restarted and the processes are gone. The disk is there, so the sandbox is paused and can be resumed. */
async function afterHostRestart(state: SandboxState, atMs: number): Promise<void> {
  await rows.recordPaused(state.id, 'host_restarted', atMs, false);
  state.enterPaused(atMs, 'host_restarted', false);
}

/** The host ended the processes because they were about to fill its disk. */
async function afterDiskPressure(state: SandboxState): Promise<void> {
  const atMs = Date.now();
  await rows.recordPaused(state.id, 'host_disk_pressure', atMs, false);
  state.enterPaused(atMs, 'host_disk_pressure', false);
  await rows.warnOfDiskPressure(state.id, atMs);
}

/** The usage of a running sandbox is recorded at least this often. Transitions record it too. */
const recordEveryMs = 3_600_000;

/**
 * The number of milliseconds until usage is due to be recorded. Null: the wait ends before that. A paused sandbox is
 * not woken for this, because the workflow `maintenance` records the disks of all paused sandboxes.
 * @param waitMs the length of the wait
 */
function usageDueIn(state: SandboxState, waitMs: number): number | null {
  const dueMs = Math.max(1, state.usageRecordedMs + recordEveryMs - Date.now());
  return waitMs <= dueMs ? null : dueMs;
}

async function recordUsage(state: SandboxState): Promise<void> {
  const atMs = Date.now();
  await rows.recordUsage(state.id, atMs);
  state.usageRecordedMs = atMs;
}
