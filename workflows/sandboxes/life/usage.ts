import { rows } from './activities.ts';
import type { SandboxState } from './state.ts';

/** The usage of a running sandbox is recorded at least this often. Transitions record it too. */
const recordEveryMs = 3_600_000;

/**
 * The number of milliseconds until usage is due to be recorded. Null: the wait ends before that. A paused sandbox is
 * not woken for this, because the workflow `maintenance` records the disks of all paused sandboxes.
 * @param waitMs the length of the wait
 */
export function usageDueIn(state: SandboxState, waitMs: number): number | null {
  const dueMs = Math.max(1, state.usageRecordedMs + recordEveryMs - Date.now());
  return waitMs <= dueMs ? null : dueMs;
}

export async function recordUsage(state: SandboxState): Promise<void> {
  const atMs = Date.now();
  await rows.recordUsage(state.id, atMs);
  state.usageRecordedMs = atMs;
}
