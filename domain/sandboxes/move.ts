import type { SandboxId } from '../ids.ts';
import type { SandboxReason, SandboxStatus } from './state.ts';

/** A stored change of a sandbox's status. */
export interface SandboxMove {
  sandboxId: SandboxId;
  hostId: string;
  from: SandboxStatus;
  status: SandboxStatus;
  reason: SandboxReason | null;
  /** For the first move to `running`: milliseconds since the sandbox's admission. Null for every other move. */
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

/** The move between two versions of a row. Null: the status is the same. */
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
