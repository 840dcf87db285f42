import type { SandboxId } from '../ids.ts';

/** The statuses of a sandbox and the moves between them. */
export const sandboxStatuses = [
  'created',
  'starting',
  'running',
  'pausing',
  'paused',
  'resuming',
  'terminating',
  'terminated',
  'failed',
] as const;
export type SandboxStatus = (typeof sandboxStatuses)[number];

export type SandboxSubstatus =
  | 'allocating'
  | 'deploying'
  | 'initializing'
  | 'waiting_ready'
  | 'cleaning_resources'
  | 'cleaning_data';

/** The reason for a sandbox's status, for programs and for people. */
export const sandboxReasons = [
  'user_requested',
  'timeout',
  'auto_pause',
  'persistence_expired',
  'image_pull_failed',
  'image_refused',
  'not_ready',
  'start_failed',
  'no_capacity',
  'host_lost',
  'host_restarted',
  'host_disk_full',
  'disk_lost',
  'host_disk_pressure',
  'host_draining',
  'runtime_exited',
  'pause_failed',
  'resume_failed',
  'restarted',
  'restart_failed',
  'budget_restricted',
  'quota_used_up',
  'object_storage_mount_failed',
  'object_storage_credentials_required',
  'ended_by_operator',
] as const;
export type SandboxReason = (typeof sandboxReasons)[number];

export const lifecycleOutcomes = ['completed', 'timed_out', 'failed', 'expired', 'deleted'] as const;
export type LifecycleOutcome = (typeof lifecycleOutcomes)[number];

const moves: Record<SandboxStatus, readonly SandboxStatus[]> = {
  created: ['starting', 'terminating', 'failed'],
  starting: ['running', 'terminating', 'failed'],
  // After a restart of its host, a sandbox goes from `running` to `paused` without `pausing`: it has no processes to
  // freeze. `POST …/restart` goes from `running` to `resuming`.
  running: ['pausing', 'paused', 'resuming', 'terminating', 'failed'],
  pausing: ['paused', 'running', 'terminating', 'failed'],
  paused: ['resuming', 'terminating', 'failed'],
  resuming: ['running', 'paused', 'terminating', 'failed'],
  terminating: ['terminated'],
  terminated: [],
  // A `failed` sandbox can only be terminated or deleted.
  failed: ['terminating'],
};

/** Whether the contract allows this move. */
export function canMove(from: SandboxStatus, to: SandboxStatus): boolean {
  return moves[from].includes(to);
}

/**
 * Statuses that count against the plan's concurrent sandboxes. `paused` does not count, so a resume is admitted again.
 */
export const concurrentStatuses: readonly SandboxStatus[] = ['created', 'starting', 'running', 'pausing', 'resuming'];

/** The sandbox has ended: it has no processes and no data. */
export function isOver(status: SandboxStatus): boolean {
  return status === 'terminated' || status === 'failed';
}

/** The outcome of a life that ended without a failure, for this reason. */
export function toLifecycleOutcome(reason: SandboxReason, deleted: boolean): LifecycleOutcome {
  if (reason === 'timeout') return 'timed_out';
  if (reason === 'persistence_expired') return 'expired';
  return deleted ? 'deleted' : 'completed';
}

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
