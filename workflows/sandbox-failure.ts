import { ActivityFailure, ApplicationFailure, rootCause, TimeoutFailure } from '@temporalio/workflow';
import { type ErrorCode, isErrorCode } from '../domain/errors.ts';
import { noLife } from '../domain/life-plan.ts';
import { type SandboxReason, sandboxReasons } from '../domain/sandbox-state.ts';
import type { RuntimeExit } from './sandbox-messages.ts';

/** The failure of work on a host, as it is kept on the row. */
export interface HostFailure {
  reason: SandboxReason;
  failure: { message: string; exitCode: number | null; outOfMemory: boolean; commandOutput: string };
}

/** What a sandbox fails with when its host has nothing left that it could be started from. */
export const diskLostFailure: HostFailure = {
  reason: 'disk_lost',
  failure: { message: 'The sandbox and its disk are gone from this host', ...readExit(undefined) },
};

/** Reads what a host activity failed with. `otherwise` names the reason where the host gave none of its own. */
export function readHostFailure(error: unknown, otherwise: SandboxReason): HostFailure {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) {
    const exit = cause.details?.[0] as Partial<RuntimeExit> | undefined;
    const reason = sandboxReasons.find((known) => known === cause.type) ?? otherwise;
    return { reason, failure: { message: cause.message ?? reason, ...readExit(exit) } };
  }
  if (cause instanceof TimeoutFailure) {
    return { reason: otherwise, failure: { message: 'The host did not answer in time', ...readExit(undefined) } };
  }
  return { reason: otherwise, failure: { message: rootCause(error) ?? 'unknown', ...readExit(undefined) } };
}

export function readExit(exit: Partial<RuntimeExit> | undefined) {
  return {
    exitCode: exit?.exitCode ?? null,
    outOfMemory: exit?.outOfMemory ?? false,
    commandOutput: exit?.commandOutput ?? '',
  };
}

/** Ends an update; the caller gets the code. */
export function refused(code: ErrorCode, message: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, code);
}

/** The refusal of an activity, under its own code where callers know it. */
export function asRefusal(error: unknown, otherwise: ErrorCode): ApplicationFailure {
  // A local activity's failure comes as it was thrown, another activity's inside an ActivityFailure.
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure && isErrorCode(cause.type)) return refused(cause.type, cause.message);
  return refused(otherwise, readHostFailure(error, 'host_lost').failure.message);
}

/** The row says that there is no life to begin: it is gone, or over already. */
export function isNoLife(error: unknown): boolean {
  return error instanceof ActivityFailure && error.cause instanceof ApplicationFailure && error.cause.type === noLife;
}

/** Nobody on the host's queue took the work up: the host is away, and nothing has begun there. */
export function neverStarted(error: unknown): boolean {
  return (
    error instanceof ActivityFailure &&
    error.cause instanceof TimeoutFailure &&
    error.cause.timeoutType === 'SCHEDULE_TO_START'
  );
}
