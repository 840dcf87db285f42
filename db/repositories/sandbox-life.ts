import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import type { MountSlot } from '../../domain/object-storage.ts';
import { udpPortsOf } from '../../domain/ports.ts';
import { stoppedClock, turn } from '../../domain/sandbox-clock.ts';
import { moveBetween, type SandboxMove } from '../../domain/sandbox-move.ts';
import {
  canMove,
  isOver,
  type LifecycleOutcome,
  type SandboxReason,
  type SandboxStatus,
  type SandboxSubstatus,
} from '../../domain/sandbox-state.ts';
import { meteredAfter } from '../../domain/usage-periods.ts';
import { Sandbox, type SandboxFailure } from '../entities/sandbox.ts';
import type { PlanCatalog } from '../plans.ts';
import { query } from '../query.ts';
import { admitResume, reserveHost, roomFor } from './admission.ts';
import { newSandboxEvent, type SandboxEventType } from './events.ts';
import { hasLease } from './hosts.ts';
import { readRow } from './read-row.ts';
import { replaceRow } from './replace-row.ts';
import { takeUdpPorts } from './udp-ports.ts';
import { usageStatements } from './usage-events.ts';

/** Where it runs, and its mounts as they came to be; undefined: as they were. */
export interface RunningPlace {
  address: string;
  agentPort: number;
  slots?: MountSlot[];
}

/**
 * Every write of a sandbox's status. Called by the activities of its own workflow and by nothing else. Each is one
 * transaction and may be repeated: a move that is already made is left as it is, its events are not recorded twice.
 */
export class SandboxLifeRepository {
  readonly #em: EntityManager;
  readonly #plans: PlanCatalog;
  readonly #onMove: (move: SandboxMove) => void;

  /** @param onMove called after each change of a status that this repository has stored */
  constructor(em: EntityManager, plans: PlanCatalog, onMove: (move: SandboxMove) => void = () => undefined) {
    this.#em = em;
    this.#plans = plans;
    this.#onMove = onMove;
  }

  /** The row, deleted or not. Null: there was never one. */
  async find(sandboxId: SandboxId): Promise<Sandbox | null> {
    return this.#em.fork().findOne(Sandbox, { sandboxId });
  }

  /**
   * `created` → `starting`. Also when it is `starting` already, because the worker that began it died.
   * @param run the number of this start
   * @returns null when there is nothing to start: the row is gone, or has another status
   */
  async begin(sandboxId: SandboxId, run: number | null): Promise<Sandbox | null> {
    const em = this.#em.fork();
    const [row] = await query(
      em,
      `update sandboxes set status = 'starting', substatus = 'allocating', reason = 'user_requested', run = ?,
              updated_at = now()
        where sandbox_id = ? and status in ('created', 'starting') returning *`,
      [run, sandboxId],
    );
    if (!row) return null;
    const sandbox = readRow(em, Sandbox, row);
    this.#report({ ...sandbox, status: 'created' }, sandbox);
    return sandbox;
  }

  /** The next step of `starting` or `terminating`; ignored once the status has moved on. */
  async step(sandboxId: SandboxId, during: SandboxStatus, substatus: SandboxSubstatus): Promise<void> {
    await this.#em.fork().nativeUpdate(Sandbox, { sandboxId, status: during }, { substatus, updatedAt: new Date() });
  }

  /** → `running`, for the first time or after a pause, at the moment its processes began to run. */
  run(sandboxId: SandboxId, place: RunningPlace, at: Date): Promise<Sandbox> {
    return this.#move(sandboxId, 'running', (row, record) => {
      const first = row.status === 'starting';
      setPhase(row, 'running', at);
      row.agentAddress = place.address;
      row.agentPort = place.agentPort;
      if (place.slots) row.objectStorage = place.slots;
      row.timeoutFrom = at;
      row.holdsCompute = true;
      if (first) row.startedAt = at;
      else row.resumedAt = at;
      row.pausedAt = null;
      row.pausingAt = null;
      const restarted = row.reason === 'restarted';
      if (!restarted) row.reason = 'user_requested';
      record(first ? 'sandbox.started' : restarted ? 'sandbox.restarted' : 'sandbox.resumed');
    });
  }

  /** `running` → `pausing`. */
  beginPause(sandboxId: SandboxId, reason: SandboxReason, at: Date): Promise<Sandbox> {
    return this.#move(sandboxId, 'pausing', (row) => {
      row.pausingAt = at;
      row.reason = reason;
    });
  }

  /** → `running` again: the freeze failed, or never began. The running phase continues. */
  cancelPause(sandboxId: SandboxId): Promise<Sandbox> {
    return this.#change(sandboxId, (row) => {
      if (row.status !== 'pausing' && row.status !== 'running') return;
      row.status = 'running';
      row.pausingAt = null;
      row.reason = 'pause_failed';
    });
  }

  /**
   * → `paused`, at the moment its processes stopped running.
   * @param memoryKept false when the host restarted: only the disk is left
   */
  pause(sandboxId: SandboxId, reason: SandboxReason, at: Date, memoryKept: boolean): Promise<Sandbox> {
    return this.#move(sandboxId, 'paused', (row, record) => {
      setPhase(row, 'paused', at);
      row.pausedAt = at;
      row.pausingAt = null;
      row.reason = reason;
      row.holdsCompute = memoryKept;
      row.timeoutFrom = null;
      record('sandbox.paused');
    });
  }

  /**
   * `paused` → `resuming`, admitted again.
   * @param run the number of this resume
   * @throws {AppError} of `admitResume`; the row then stays `paused`
   */
  beginResume(sandboxId: SandboxId, run: number | null): Promise<Sandbox> {
    return this.#move(
      sandboxId,
      'resuming',
      async (row, _tell, tx) => {
        await admitResume(tx!, this.#plans, row);
        row.holdsCompute = true;
        row.run = run;
        row.reason = 'user_requested';
      },
      'in a transaction',
    );
  }

  /**
   * `resuming` → `paused`: the resume failed. The paused phase continues. A row that is still `paused` is left as it
   * is.
   */
  cancelResume(sandboxId: SandboxId, memoryKept: boolean): Promise<Sandbox> {
    return this.#move(sandboxId, 'paused', (row) => {
      row.holdsCompute = memoryKept;
      row.reason = 'resume_failed';
    });
  }

  /**
   * `running` or `paused` → `resuming`: its processes are about to be ended. A paused one is admitted as for a resume; a
   * running one counts already.
   * @param run the number of this restart
   * @throws {AppError} of `admitResume`; the row then stays as it is
   */
  beginRestart(sandboxId: SandboxId, run: number, at: Date): Promise<Sandbox> {
    return this.#move(
      sandboxId,
      'resuming',
      async (row, _tell, tx) => {
        if (row.status === 'paused') await admitResume(tx!, this.#plans, row);
        else {
          // The running phase ends here, also when the restart fails.
          setPhase(row, 'paused', at);
          row.pausedAt = at;
          row.timeoutFrom = null;
        }
        row.holdsCompute = true;
        row.isMeasured = false;
        row.run = run;
        row.reason = 'restarted';
      },
      'in a transaction',
    );
  }

  /**
   * `resuming` → `paused`: its processes were ended and others could not be started. One that is not `resuming` is left
   * as it is: the restart was refused before it ended anything.
   */
  cancelRestart(sandboxId: SandboxId, from: 'running' | 'paused'): Promise<Sandbox> {
    return this.#change(sandboxId, (row, record) => {
      if (row.status !== 'resuming') return;
      row.status = 'paused';
      row.reason = 'restart_failed';
      row.holdsCompute = false;
      if (from === 'running') record('sandbox.paused');
    });
  }

  /** → `terminating`. A failed one stays explained by its `failure`. */
  beginTermination(sandboxId: SandboxId, reason: SandboxReason): Promise<Sandbox> {
    return this.#move(sandboxId, 'terminating', (row) => {
      row.substatus = 'cleaning_resources';
      row.reason = reason;
    });
  }

  /** Its processes ended, whatever the status: the clock stops and its compute is free. */
  stop(sandboxId: SandboxId, at: Date): Promise<Sandbox> {
    return this.#change(sandboxId, (row, record) => {
      if (row.status === 'terminating') row.substatus = 'cleaning_data';
      row.holdsCompute = false;
      endPhase(row, at, record);
    });
  }

  /**
   * `terminating` → `terminated`. A failed life keeps its outcome.
   * @param cleaned false when its host could not be reached: its room stays taken until reconciliation has cleaned it
   */
  endTermination(sandboxId: SandboxId, outcome: LifecycleOutcome, at: Date, cleaned: boolean): Promise<Sandbox> {
    return this.#move(sandboxId, 'terminated', (row, record) => {
      endPhase(row, at, record);
      if (cleaned) giveBackRoom(row);
      row.endedAt ??= at;
      row.lifecycleOutcome ??= outcome;
      record('sandbox.terminated');
    });
  }

  /** → `failed`, with the explanation. `stop` and `releaseRoom` give its room back. */
  fail(sandboxId: SandboxId, reason: SandboxReason, failure: SandboxFailure, at: Date): Promise<Sandbox> {
    return this.#move(sandboxId, 'failed', (row, record) => {
      row.reason = reason;
      row.failure = failure;
      row.endedAt = at;
      row.lifecycleOutcome = 'failed';
      endPhase(row, at, record);
      record('sandbox.failed');
    });
  }

  /** A paused one has no processes any more, frozen or not: only its disk is left. */
  loseMemory(sandboxId: SandboxId): Promise<Sandbox> {
    return this.#change(sandboxId, (row) => {
      if (row.status === 'paused') row.holdsCompute = false;
    });
  }

  /** Nothing of it is on its host any more. */
  releaseRoom(sandboxId: SandboxId): Promise<Sandbox> {
    return this.#change(sandboxId, giveBackRoom);
  }

  /**
   * Moves one that has not started yet to another host with room, by the same wish as it was placed first.
   * @throws {AppError} `no_capacity`
   */
  placeAgain(sandboxId: SandboxId): Promise<Sandbox> {
    return this.#change(
      sandboxId,
      async (row, _tell, tx) => {
        if (row.status !== 'created' && row.status !== 'starting') return;
        const host = await reserveHost(tx!, await roomFor(tx!, row), {
          wish: { nearest: row.nearestRegions, forced: row.regionForced },
          except: row.hostId,
        });
        row.hostId = host.hostId;
        row.region = host.region;
        row.udpHostPorts = await takeUdpPorts(tx!, host.hostId, udpPortsOf(row));
        row.substatus = 'allocating';
        row.isMeasured = false;
        row.run = null;
      },
      'in a transaction',
    );
  }

  /** From now on it answers 404 and is in no list. */
  forget(sandboxId: SandboxId, at: Date): Promise<Sandbox> {
    return this.#change(sandboxId, (row) => {
      row.deletedAt ??= at;
    });
  }

  /**
   * Records what a sandbox used until `at`, between two transitions. While its host is away, it is unknown whether the sandbox
   * runs: the next transition then records its usage.
   */
  closeUsage(sandboxId: SandboxId, at: Date): Promise<Sandbox> {
    return this.#change(sandboxId, async (row) => {
      if (row.phaseKind === 'running' && !(await hasLease(this.#em, row.hostId))) return;
      if (row.phaseKind) row.meteredUntil = meteredAfter(row.meteredUntil ?? null, at);
    });
  }

  /** Another timeout; `from` moves the start of its clock. */
  setTimeout(sandboxId: SandboxId, timeoutSeconds: number, from: Date | null): Promise<Sandbox> {
    return this.#change(sandboxId, (row) => {
      row.timeoutSeconds = timeoutSeconds;
      if (from) row.timeoutFrom = from;
    });
  }

  #move(sandboxId: SandboxId, to: SandboxStatus, apply: Change, how?: 'in a transaction'): Promise<Sandbox> {
    return this.#change(
      sandboxId,
      async (row, record, tx) => {
        if (row.status === to) return;
        // A worker that lost its workflow task may have gone on to the end already; another does it again from here.
        if (row.status === 'terminating' && (to === 'running' || to === 'paused')) return;
        if ((row.status === 'terminating' || isOver(row.status)) && (to === 'pausing' || to === 'resuming')) {
          throw new AppError('sandbox_ended', `The sandbox is ${row.status}`);
        }
        if (!canMove(row.status, to)) {
          throw new AppError('internal_error', `Sandbox ${sandboxId} cannot move from ${row.status} to ${to}`);
        }
        await apply(row, record, tx);
        if (to !== 'terminating') row.substatus = null;
        row.status = to;
      },
      how,
    );
  }

  /**
   * Reads the row, changes it, and writes the change with its events in one statement, unless another write came
   * between; then all over again. Callers wait for these writes, which take two round trips to the database.
   */
  async #change(sandboxId: SandboxId, apply: Change, how?: 'in a transaction'): Promise<Sandbox> {
    const em = this.#em.fork();
    for (;;) {
      const changed = how
        ? await em.transactional((tx) => this.#changeOnce(tx, sandboxId, apply, tx))
        : await this.#changeOnce(em, sandboxId, apply, null);
      if (!changed) continue;
      this.#report(changed.before, changed.row);
      return changed.row;
    }
  }

  #report(before: Sandbox, row: Sandbox): void {
    const move = moveBetween(before, row);
    if (move) this.#onMove(move);
  }

  /** @returns null when another write came between; nothing is changed then */
  async #changeOnce(
    em: EntityManager,
    sandboxId: SandboxId,
    apply: Change,
    tx: EntityManager | null,
  ): Promise<{ before: Sandbox; row: Sandbox } | null> {
    const [found] = await query<{ version: string } & Record<string, unknown>>(
      em,
      `select *, xmin::text as version from sandboxes where sandbox_id = ? ${tx ? 'for update' : ''}`,
      [sandboxId],
    );
    if (!found) throw new AppError('internal_error', `There is no sandbox ${sandboxId}`);
    const before = readRow(em, Sandbox, found);
    const row = { ...before };
    const types: SandboxEventType[] = [];
    await apply(row, (type) => types.push(type), tx);
    if (!row.holdsCompute) row.isMeasured = false;
    // After the status is set, so that each event carries the state it led to.
    const events = types.map((type) => newSandboxEvent(row, type, new Date()));
    const usage = usageStatements(before, row.meteredUntil ?? null, ', changed');
    const replaced = await replaceRow(em, Sandbox, { before, after: row, version: found.version }, events, usage);
    return replaced ? { before, row } : null;
  }
}

type RecordEvent = (type: SandboxEventType) => void;
/** `tx` is there when the change runs in a transaction, with the row locked. */
type Change = (row: Sandbox, record: RecordEvent, tx: EntityManager | null) => void | Promise<void>;

/** Also says how far usage is recorded with this change: up to here in the phase that ends. */
function setPhase(row: Sandbox, kind: 'running' | 'paused' | null, at: Date): void {
  if (row.phaseKind || kind) row.meteredUntil = meteredAfter(row.meteredUntil ?? null, at);
  const phase = row.phaseKind && row.phaseSince ? { kind: row.phaseKind, since: row.phaseSince } : null;
  const clock = turn({ ...stoppedClock, runningMs: row.runningMs, pausedMs: row.pausedMs, phase }, kind, at);
  row.runningMs = clock.runningMs;
  row.pausedMs = clock.pausedMs;
  row.phaseKind = clock.phase?.kind ?? null;
  row.phaseSince = clock.phase?.since ?? null;
}

function giveBackRoom(row: Sandbox): void {
  row.holdsCompute = false;
  row.holdsDisk = false;
  row.udpHostPorts = {};
}

function endPhase(row: Sandbox, at: Date, record: RecordEvent): void {
  if (row.stoppedAt) return;
  setPhase(row, null, at);
  row.agentAddress = null;
  row.agentPort = null;
  row.timeoutFrom = null;
  if (row.startedAt) {
    row.stoppedAt = at;
    record('sandbox.stopped');
  }
}
