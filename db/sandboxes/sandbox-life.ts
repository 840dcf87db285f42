import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { listUdpPorts } from '../../domain/sandboxes/ports.ts';
import {
  canMove,
  isOver,
  type LifecycleOutcome,
  moveBetween,
  type SandboxMove,
  type SandboxReason,
  type SandboxStatus,
  type SandboxSubstatus,
} from '../../domain/sandboxes/state.ts';
import { meteredAfter } from '../../domain/usage/periods.ts';
import type { PlanCatalog } from '../billing/plans.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { hasLease } from '../hosts/hosts.ts';
import { secretKeyInUse } from '../upkeep/secret-keys.ts';
import { admitResume, requiredCapacity, reserveHost, takeUdpPorts } from './admission.ts';
import { Sandbox, type SandboxFailure } from './sandbox.entity.ts';
import {
  type Change,
  enterPaused,
  enterResuming,
  enterRunning,
  MovedDirectly,
  type RecordEvent,
  type RunningPlace,
  readVersion,
  replaceVersion,
  setPhase,
} from './sandbox-changes.ts';

/**
 * The workflow's writes of a sandbox's status. Only the activities of the sandbox's own workflow call this; `DirectMoves`
 * has the writes of others. Each write is one transaction and may be repeated: a move that was already made is not made
 * again, and its events are not recorded twice. A write to a row that was moved directly fails with `MovedDirectly`,
 * unless it ends the sandbox for somebody: the workflow adopts the row first.
 */
export class SandboxLifeRepository {
  readonly #em: EntityManager;
  readonly #plans: PlanCatalog;
  readonly #onMove: (move: SandboxMove) => void;

  /** @param onMove called after each stored change of a status */
  constructor(em: EntityManager, plans: PlanCatalog, onMove: (move: SandboxMove) => void = () => undefined) {
    this.#em = em;
    this.#plans = plans;
    this.#onMove = onMove;
  }

  /** The row, deleted or not. Null: it never existed. */
  async find(sandboxId: SandboxId): Promise<Sandbox | null> {
    return this.#em.fork().findOne(Sandbox, { sandboxId });
  }

  /**
   * `created` → `starting`. Also succeeds if the row is already `starting`, because the worker that began the start may
   * have died.
   * @param run the number of this start
   * @returns null when there is nothing to start: the row is gone, or has another status
   */
  async begin(sandboxId: SandboxId, run: number): Promise<Sandbox | null> {
    const em = this.#em.fork();
    const [row] = await query<EntityRow<Sandbox>>(
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

  /** The next step of `starting` or `terminating`. Ignored if the status has changed. */
  async step(sandboxId: SandboxId, during: SandboxStatus, substatus: SandboxSubstatus): Promise<void> {
    await this.#em.fork().nativeUpdate(Sandbox, { sandboxId, status: during }, { substatus, updatedAt: new Date() });
  }

  /** → `running`, for the first time or after a pause, at the moment its processes began to run. */
  run(sandboxId: SandboxId, place: RunningPlace, at: Date): Promise<Sandbox> {
    return this.#move(sandboxId, 'running', (row, record) => {
      const first = row.status === 'starting';
      enterRunning(row, place, at);
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
      requireAdopted(row);
      if (row.status !== 'pausing' && row.status !== 'running') return;
      row.status = 'running';
      row.pausingAt = null;
      row.reason = 'pause_failed';
    });
  }

  /**
   * → `paused`, at the time when its processes stopped running.
   * @param memoryKept false when the host restarted and only the disk is left
   */
  pause(sandboxId: SandboxId, reason: SandboxReason, at: Date, memoryKept: boolean): Promise<Sandbox> {
    return this.#move(sandboxId, 'paused', (row, record) => {
      enterPaused(row, reason, at, memoryKept);
      record('sandbox.paused');
    });
  }

  /**
   * `paused` → `resuming`, if the sandbox is admitted again.
   * @param run the number of this resume
   * @throws {AppError} the errors of `admitResume`; then the row stays `paused`
   */
  beginResume(sandboxId: SandboxId, run: number): Promise<Sandbox> {
    return this.#move(
      sandboxId,
      'resuming',
      async (row, _tell, tx) => {
        await admitResume(tx!, this.#plans, row);
        enterResuming(row, run);
      },
      'in a transaction',
    );
  }

  /**
   * `resuming` → `paused`: the resume failed. The paused phase continues. A row that is still `paused` stays unchanged.
   */
  cancelResume(sandboxId: SandboxId, memoryKept: boolean): Promise<Sandbox> {
    return this.#move(sandboxId, 'paused', (row) => {
      row.holdsCompute = memoryKept;
      row.reason = 'resume_failed';
    });
  }

  /**
   * `running` or `paused` → `resuming`: its processes are about to be ended. A paused sandbox is admitted as for a
   * resume. A running one already counts.
   * @param run the number of this restart
   * @throws {AppError} the errors of `admitResume`; then the row stays unchanged
   */
  beginRestart(sandboxId: SandboxId, run: number, at: Date): Promise<Sandbox> {
    return this.#move(
      sandboxId,
      'resuming',
      async (row, _tell, tx) => {
        if (row.status === 'paused') await admitResume(tx!, this.#plans, row);
        else {
          // The running phase ends here, even if the restart fails.
          setPhase(row, 'paused', at);
          row.pausedAt = at;
          row.timeoutFrom = null;
        }
        row.holdsCompute = true;
        row.isMeasured = false;
        row.run = run;
        // The new processes get tokens of the present secret key, so a restart is enough after a leak of a former one.
        row.secretKeyNumber = (await secretKeyInUse(tx!)) ?? row.secretKeyNumber;
        row.reason = 'restarted';
      },
      'in a transaction',
    );
  }

  /**
   * `resuming` → `paused`: its processes were ended and new ones could not be started. If the row is not `resuming`,
   * the restart was refused before it ended any process, and the row stays unchanged.
   */
  cancelRestart(sandboxId: SandboxId, from: 'running' | 'paused'): Promise<Sandbox> {
    return this.#change(sandboxId, (row, record) => {
      requireAdopted(row);
      if (row.status !== 'resuming') return;
      row.status = 'paused';
      row.reason = 'restart_failed';
      row.holdsCompute = false;
      if (from === 'running') record('sandbox.paused');
    });
  }

  /** → `terminating`. A failed sandbox keeps its `failure`. */
  beginTermination(sandboxId: SandboxId, reason: SandboxReason): Promise<Sandbox> {
    return this.#end(sandboxId, reason, 'terminating', (row) => {
      row.substatus = 'cleaning_resources';
      row.reason = reason;
    });
  }

  /** Records, in every status, that its processes ended: the clock stops and its compute is released. */
  stop(sandboxId: SandboxId, at: Date): Promise<Sandbox> {
    return this.#change(sandboxId, (row, record) => {
      if (row.status === 'terminating') row.substatus = 'cleaning_data';
      row.holdsCompute = false;
      endPhase(row, at, record);
    });
  }

  /**
   * `terminating` → `terminated`. A failed sandbox keeps its outcome.
   * @param cleaned false when its host was unreachable: its capacity stays reserved until reconciliation has cleaned up
   */
  endTermination(sandboxId: SandboxId, outcome: LifecycleOutcome, at: Date, cleaned: boolean): Promise<Sandbox> {
    return this.#move(sandboxId, 'terminated', (row, record) => {
      endPhase(row, at, record);
      if (cleaned) clearReservations(row);
      row.endedAt ??= at;
      row.lifecycleOutcome ??= outcome;
      record('sandbox.terminated');
    });
  }

  /** → `failed`, with the explanation. `stop` and `releaseCapacity` release its capacity. */
  fail(sandboxId: SandboxId, reason: SandboxReason, failure: SandboxFailure, at: Date): Promise<Sandbox> {
    return this.#end(sandboxId, reason, 'failed', (row, record) => {
      row.reason = reason;
      row.failure = failure;
      row.endedAt = at;
      row.lifecycleOutcome = 'failed';
      endPhase(row, at, record);
      record('sandbox.failed');
    });
  }

  /** Records that a paused sandbox has no processes any more, frozen or not. Only its disk is left. */
  loseMemory(sandboxId: SandboxId): Promise<Sandbox> {
    return this.#change(sandboxId, (row) => {
      requireAdopted(row);
      if (row.status === 'paused') row.holdsCompute = false;
    });
  }

  /** Records that nothing of the sandbox is left on its host. */
  releaseCapacity(sandboxId: SandboxId): Promise<Sandbox> {
    return this.#change(sandboxId, clearReservations);
  }

  /**
   * Moves a sandbox that has not started yet to another host with free capacity, with its original region preferences.
   * @throws {AppError} `no_capacity`
   */
  placeAgain(sandboxId: SandboxId): Promise<Sandbox> {
    return this.#change(
      sandboxId,
      async (row, _tell, tx) => {
        if (row.status !== 'created' && row.status !== 'starting') return;
        const host = await reserveHost(tx!, await requiredCapacity(tx!, row), {
          preference: { nearest: row.nearestRegions, forced: row.regionForced },
          except: row.hostId,
        });
        row.hostId = host.hostId;
        row.region = host.region;
        row.udpHostPorts = await takeUdpPorts(tx!, host.hostId, listUdpPorts(row));
        row.substatus = 'allocating';
        row.isMeasured = false;
        row.run = null;
      },
      'in a transaction',
    );
  }

  /** From now on the sandbox gives 404 and is in no list. */
  forget(sandboxId: SandboxId, at: Date): Promise<Sandbox> {
    return this.#change(sandboxId, (row) => {
      row.deletedAt ??= at;
    });
  }

  /**
   * Records the usage of a sandbox until `at`, between two transitions. While its host is away, it is unknown whether
   * the sandbox runs. Then the next transition records the usage.
   */
  closeUsage(sandboxId: SandboxId, at: Date): Promise<Sandbox> {
    return this.#change(sandboxId, async (row) => {
      if (row.phaseKind === 'running' && !(await hasLease(this.#em, row.hostId))) return;
      if (row.phaseKind) row.meteredUntil = meteredAfter(row.meteredUntil ?? null, at);
    });
  }

  /** Sets another timeout. `from` moves the start of its clock. */
  setTimeout(sandboxId: SandboxId, timeoutSeconds: number, from: Date | null): Promise<Sandbox> {
    return this.#change(sandboxId, (row) => {
      row.timeoutSeconds = timeoutSeconds;
      if (from) row.timeoutFrom = from;
    });
  }

  /** An end that somebody has asked for goes before the adoption of a direct move. */
  #end(sandboxId: SandboxId, reason: SandboxReason, to: 'terminating' | 'failed', apply: Change): Promise<Sandbox> {
    return this.#change(sandboxId, (row, record, tx) => {
      if (reason !== 'user_requested' && reason !== 'ended_by_operator') requireAdopted(row);
      row.movedDirectly = false;
      return move(row, to, () => apply(row, record, tx));
    });
  }

  #move(sandboxId: SandboxId, to: SandboxStatus, apply: Change, how?: 'in a transaction'): Promise<Sandbox> {
    return this.#change(
      sandboxId,
      (row, record, tx) => {
        requireAdopted(row);
        return move(row, to, () => apply(row, record, tx));
      },
      how,
    );
  }

  /**
   * Reads the row, changes it, and writes the change with its events in one statement. If another write came in
   * between, it starts again. Callers wait for these writes, which take two round trips to the database.
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

  /** @returns null when another write came in between; then nothing is changed */
  async #changeOnce(
    em: EntityManager,
    sandboxId: SandboxId,
    apply: Change,
    tx: EntityManager | null,
  ): Promise<{ before: Sandbox; row: Sandbox } | null> {
    const found = await readVersion(em, sandboxId, tx ? 'for update' : '');
    const row = await replaceVersion(em, found, new Date(), apply, tx);
    return row && { before: found.row, row };
  }
}

function clearReservations(row: Sandbox): void {
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

function requireAdopted({ sandboxId, movedDirectly }: Sandbox): void {
  if (movedDirectly) throw new MovedDirectly(`Sandbox ${sandboxId} was moved directly`);
}

async function move(row: Sandbox, to: SandboxStatus, apply: () => void | Promise<void>): Promise<void> {
  if (row.status === to) return;
  // A worker that lost its workflow task may already have written the end. Another worker then repeats the earlier
  // writes.
  if (row.status === 'terminating' && (to === 'running' || to === 'paused')) return;
  if ((row.status === 'terminating' || isOver(row.status)) && (to === 'pausing' || to === 'resuming')) {
    throw new AppError('sandbox_ended', `The sandbox is ${row.status}`);
  }
  if (!canMove(row.status, to)) {
    throw new AppError('internal_error', `Sandbox ${row.sandboxId} cannot move from ${row.status} to ${to}`);
  }
  await apply();
  if (to !== 'terminating') row.substatus = null;
  row.status = to;
}
