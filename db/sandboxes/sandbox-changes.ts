import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { stoppedClock, turn } from '../../domain/sandboxes/clock.ts';
import type { MountSlot } from '../../domain/sandboxes/object-storage.ts';
import type { SandboxReason } from '../../domain/sandboxes/state.ts';
import { meteredAfter } from '../../domain/usage/periods.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { replaceRow } from '../core/replace-row.ts';
import { usageStatements } from '../usage/usage-events.ts';
import { Sandbox } from './sandbox.entity.ts';
import { newSandboxEvent, type SandboxEventType } from './sandbox-events.ts';

/** A row and its `xmin` at the read. */
export interface Versioned {
  row: Sandbox;
  version: string;
}
export type VersionedRow = EntityRow<Sandbox> & { version: string };

export type RecordEvent = (type: SandboxEventType) => void;
/** `tx` is set when the change runs in a transaction with the row locked. */
export type Change = (row: Sandbox, record: RecordEvent, tx: EntityManager | null) => void | Promise<void>;

/** The row was moved without its workflow, which has to adopt that first. Nothing was written. */
export class MovedDirectly extends Error {
  override name = 'MovedDirectly';
}

export async function readVersion(
  em: EntityManager,
  sandboxId: SandboxId,
  lock: 'for update' | '',
): Promise<Versioned> {
  const [found] = await query<VersionedRow>(
    em,
    `select *, xmin::text as version from sandboxes where sandbox_id = ? ${lock}`,
    [sandboxId],
  );
  if (!found) throw new AppError('internal_error', `There is no sandbox ${sandboxId}`);
  return { row: readRow(em, Sandbox, found), version: found.version };
}

/**
 * Changes a row and writes the change with its events and its usage in one statement.
 * @returns the changed row; null when another write came in between
 */
export async function replaceVersion(
  em: EntityManager,
  { row: before, version }: Versioned,
  eventsAt: Date,
  apply: Change,
  tx: EntityManager | null = null,
): Promise<Sandbox | null> {
  const row = { ...before };
  const types: SandboxEventType[] = [];
  await apply(row, (type) => types.push(type), tx);
  if (!row.holdsCompute) row.isMeasured = false;
  // Made after the status is set, so that each event has the state that it led to.
  const events = types.map((type) => newSandboxEvent(row, type, eventsAt));
  const usage = usageStatements(before, row.meteredUntil ?? null, ', changed');
  return (await replaceRow(em, Sandbox, { before, after: row, version }, events, usage)) ? row : null;
}

/** The place of a running sandbox, and its mounts after the start. Undefined mounts: unchanged. */
export interface RunningPlace {
  address: string;
  agentPort: number;
  slots?: MountSlot[];
}

export function enterRunning(row: Sandbox, place: RunningPlace, at: Date): void {
  setPhase(row, 'running', at);
  row.agentAddress = place.address;
  row.agentPort = place.agentPort;
  if (place.slots) row.objectStorage = place.slots;
  row.timeoutFrom = at;
  row.holdsCompute = true;
  if (row.startedAt) row.resumedAt = at;
  else row.startedAt = at;
  row.pausedAt = null;
  row.pausingAt = null;
}

export function enterPaused(row: Sandbox, reason: SandboxReason, at: Date, memoryKept: boolean): void {
  setPhase(row, 'paused', at);
  row.pausedAt = at;
  row.pausingAt = null;
  row.reason = reason;
  row.holdsCompute = memoryKept;
  row.timeoutFrom = null;
}

/** @param run the number of the resume */
export function enterResuming(row: Sandbox, run: number): void {
  row.holdsCompute = true;
  row.run = run;
  row.reason = 'user_requested';
}

/** Also sets the time up to which usage is recorded with this change, which is the end of the phase. */
export function setPhase(row: Sandbox, kind: 'running' | 'paused' | null, at: Date): void {
  if (row.phaseKind || kind) row.meteredUntil = meteredAfter(row.meteredUntil ?? null, at);
  const phase = row.phaseKind && row.phaseSince ? { kind: row.phaseKind, since: row.phaseSince } : null;
  const clock = turn({ ...stoppedClock, runningMs: row.runningMs, pausedMs: row.pausedMs, phase }, kind, at);
  row.runningMs = clock.runningMs;
  row.pausedMs = clock.pausedMs;
  row.phaseKind = clock.phase?.kind ?? null;
  row.phaseSince = clock.phase?.since ?? null;
}
