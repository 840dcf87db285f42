import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { ProjectId } from '../../../domain/ids.ts';
import type { LifeStart } from '../../../domain/sandboxes/life-plan.ts';
import type { StorageChange } from '../../../domain/sandboxes/object-storage.ts';
import type { Port } from '../../../domain/sandboxes/ports.ts';
import type { SandboxReason, SandboxStatus } from '../../../domain/sandboxes/state.ts';
import type { TimeoutChange, TimeoutReply } from '../../../domain/sandboxes/timeout-change.ts';

/**
 * The messages of a sandbox's workflow. A refused update fails with an ApplicationFailure, and its `type` is an error
 * code of `domain/errors.ts`.
 */

/** Input of the workflow `sandbox` (id `sbx-…`). `carried` is set only when the workflow continues as new. */
export interface SandboxWorkflowInput extends LifeStart {
  carried?: CarriedState;
}

/** The state that one run of the workflow passes to the next. Times are Unix milliseconds. */
export interface CarriedState {
  status: 'running' | 'paused';
  reason: SandboxReason | null;
  timeoutFromMs: number;
  pausedAtMs: number;
  memoryKept: boolean;
  usageRecordedMs: number;
  run: number;
  attempts: number;
  /** Reports of hosts that the workflow has not acted on yet. */
  reports: HostReport[];
}

/** The sandbox at the time of the reply. */
export interface StatusReply {
  status: SandboxStatus;
  reason: SandboxReason | null;
}

/**
 * Delivers the credentials of the first mounts, encrypted for the host. The start waits for them. Replies at once, or
 * with `wait` when the sandbox has left `created` and `starting`, with any status.
 */
export const storageCredentialsUpdate = defineUpdate<StatusReply, [{ sealed: string; wait: boolean }]>(
  'storageCredentials',
);

/** Replies when the sandbox has left `created` and `starting`, with any status. */
export const settledUpdate = defineUpdate<StatusReply, []>('settled');

/**
 * Freezes the processes. Replies at `pausing`, or with `wait` at `paused`. Refused: `sandbox_not_running`,
 * `pause_failed`, `host_unavailable`.
 */
export const pauseUpdate = defineUpdate<StatusReply, [{ wait: boolean }]>('pause');

/**
 * Resumes a paused sandbox. Replies at `resuming`, or with `wait` at `running`. Refused: `sandbox_not_paused`,
 * `concurrent_limit_reached`, `quota_used_up`, `no_capacity`, `account_suspended`, `resume_failed`,
 * `object_storage_credentials_required`, `object_storage_mount_failed`.
 */
export const resumeUpdate = defineUpdate<StatusReply, [{ wait: boolean; storage?: StorageChange }]>('resume');

/**
 * Ends the processes of a running or paused sandbox and starts it again on its disk. Replies at `running`. Refused: the
 * codes of `resume`, and `sandbox_busy`, `restart_failed`, `host_disk_full`.
 */
export const restartUpdate = defineUpdate<StatusReply, [{ storage: StorageChange | null }]>('restart');

/**
 * Brings a sandbox from any status before its end to `running`, and then replies. A given timeout counts from now.
 * Refused: the codes of `resume`, and `sandbox_ended`.
 */
export const connectUpdate = defineUpdate<StatusReply, [{ timeoutSeconds: number | null }]>('connect');

/** Changes the length of running phases. Refused: `timeout_not_raised`, `timeout_already_passed`, `sandbox_ended`. */
export const timeoutUpdate = defineUpdate<TimeoutReply, [TimeoutChange]>('timeout');

/**
 * Adds a port and replies when it is reachable. Refused: `sandbox_not_running`, `port_taken`, `port_name_taken`,
 * `port_limit_reached`, `no_capacity`, `temporarily_unavailable`.
 */
export const addPortUpdate = defineUpdate<void, [Port]>('addPort');

/**
 * Removes a port by its number. Refused: `sandbox_not_running`, `not_found`, `port_of_template`,
 * `temporarily_unavailable`.
 */
export const removePortUpdate = defineUpdate<void, [number]>('removePort');

/**
 * Ends the sandbox. Replies when the row says `terminating`. With `forget`, the API answers 404 when its data is gone.
 */
export const terminateUpdate = defineUpdate<StatusReply, [{ forget: boolean }]>('terminate');

/**
 * The API and the host have paused or resumed the sandbox without the workflow, which now adopts its row. A move that is
 * still in progress is left to its host, unless `takeOver` is set.
 */
export const movedDirectlySignal = defineSignal<[{ takeOver: boolean }]>('movedDirectly');

/**
 * As the signal `movedDirectly`. Replies when the row is adopted and a move that was taken over has ended. Refused: the
 * codes of `pause` or `resume`.
 */
export const adoptUpdate = defineUpdate<StatusReply, [{ takeOver: boolean }]>('adopt');

/** As the update `terminate`, for a sandbox of a batch. The caller of the batch already has its reply. */
export const endSignal = defineSignal<[{ forget: boolean }]>('end');

/**
 * A change of a sandbox's processes that the host has observed. `run` is the number of the start or resume that brought
 * them up. It is null if the host does not know it.
 */
export type HostReport =
  | { kind: 'exited'; run: number | null; exit: RuntimeExit }
  /** The processes are gone and their exit was not recorded. The disk is there. `at` is RFC 3339. */
  | { kind: 'memoryLost'; run: number | null; at: string }
  /** Nothing of the sandbox is left on the host, and its disk is gone too. */
  | { kind: 'diskLost'; run: number | null }
  /**
   * The host's disk is nearly full, so the host froze the processes, or ended them (`ended`). The workflow pauses the
   * sandbox.
   */
  | { kind: 'diskPressure'; run: number | null; ended: boolean };

export const hostReportSignal = defineSignal<[HostReport]>('hostReport');

export interface RuntimeExit {
  exitCode: number | null;
  outOfMemory: boolean;
  commandOutput: string;
  /** RFC 3339. */
  at: string;
}

/**
 * The host was lost: no process of the sandbox runs there any more, and no activity there will complete. `run` is the
 * run on that host according to the row. It is null if the row has none yet.
 */
export const hostLostSignal = defineSignal<[{ hostId: string; run: number | null }]>('hostLost');

/** The sandbox now belongs to another project. The workflow only changes its search attributes. */
export const projectSwitchedSignal = defineSignal<[{ projectId: ProjectId }]>('projectSwitched');

/** Pauses a running sandbox on behalf of the platform. In every other status the signal is dropped. */
export const pauseRequestedSignal = defineSignal<[{ reason: SandboxReason }]>('pauseRequested');

/** The workflow's own view of the sandbox, for operators. */
export interface SandboxLifeView {
  status: SandboxStatus;
  reason: SandboxReason | null;
  hostId: string | null;
  /** RFC 3339. The time when `nextAction` happens if no request arrives. */
  nextDeadline: string | null;
  nextAction: 'timeout' | 'auto_pause' | 'expire' | null;
  /** The reason of the failure as text for people. */
  failure: string | null;
}
export const lifeQuery = defineQuery<SandboxLifeView>('life');
