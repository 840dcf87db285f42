import type { SandboxId } from './ids.ts';
import type { SandboxReason, SandboxStatus } from './sandbox-state.ts';

/** A change of the status of a sandbox that is stored. */
export interface SandboxMove {
  sandboxId: SandboxId;
  hostId: string;
  from: SandboxStatus;
  status: SandboxStatus;
  reason: SandboxReason | null;
  /** When it runs for the first time: milliseconds since its admission. Null: it is another move. */
  startedAfterMs: number | null;
}

interface Moving {
  sandboxId: SandboxId;
  hostId: string;
  status: SandboxStatus;
  reason?: SandboxReason | null;
  createdAt: Date;
  startedAt?: Date | null;
}

/** The move between two states of a row. Null: the status is the same. */
export function moveBetween(before: Moving, after: Moving): SandboxMove | null {
  if (before.status === after.status) return null;
  const isFirst = after.status === 'running' && !before.startedAt && after.startedAt;
  return {
    sandboxId: after.sandboxId,
    hostId: after.hostId,
    from: before.status,
    status: after.status,
    reason: after.reason ?? null,
    startedAfterMs: isFirst ? Math.max(0, after.startedAt!.getTime() - after.createdAt.getTime()) : null,
  };
}
