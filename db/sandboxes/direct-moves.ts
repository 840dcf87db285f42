import type { EntityManager } from '@mikro-orm/postgresql';
import { AppError } from '../../domain/errors.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { firstRun } from '../../domain/sandboxes/life-plan.ts';
import { moveBetween, type SandboxMove, type SandboxReason, type SandboxStatus } from '../../domain/sandboxes/state.ts';
import type { PlanCatalog } from '../billing/plans.ts';
import { query } from '../core/query.ts';
import { type EntityRow, readRow } from '../core/read-row.ts';
import { admitResume } from './admission.ts';
import { directMoveSeconds, toWorkNotice, workChannel } from './direct-news.ts';
import { Sandbox } from './sandbox.entity.ts';
import {
  type Change,
  enterPaused,
  enterResuming,
  enterRunning,
  type RunningPlace,
  readVersion,
  replaceVersion,
  type Versioned,
  type VersionedRow,
} from './sandbox-changes.ts';

/** A move that this host has taken up. `readAt` is a time of the database's clock. */
export interface ClaimedMove extends Versioned {
  readAt: Date;
}

/** The part of a row that its workflow adopts. Times are Unix milliseconds. */
export interface AdoptedRow {
  status: SandboxStatus;
  reason: SandboxReason | null;
  run: number | null;
  phase: 'running' | 'paused' | null;
  phaseSinceMs: number;
  /** When the timeout of the running phase began to count. */
  timeoutFromMs: number;
  memoryKept: boolean;
  /** Its host is still at the move, and it was not taken over. */
  isMoving: boolean;
}

/**
 * Moves of a sandbox without its workflow. The API claims a pause or a resume of a stable sandbox: it moves the row to
 * `pausing` or `resuming`, sets `movedDirectly`, tells the host, and leaves a signal for the workflow in the outbox. The
 * host finishes the move if that still holds. The workflow adopts the result with `adopt`, which clears `movedDirectly`;
 * until then the other writes of the workflow fail. A first start has no `movedDirectly`: its workflow begins later.
 */
export class DirectMoves {
  readonly #em: EntityManager;
  readonly #plans: PlanCatalog;
  readonly #onMove: (move: SandboxMove) => void;

  /** @param onMove called after each stored change of a status by this host */
  constructor(em: EntityManager, plans: PlanCatalog, onMove: (move: SandboxMove) => void = () => undefined) {
    this.#em = em;
    this.#plans = plans;
    this.#onMove = onMove;
  }

  /**
   * `running` → `pausing`, for the API.
   * @param requestId the id of the request, for the log of the host
   * @returns the run that is paused; null when the sandbox does not run, or its host does not listen
   */
  async claimPause({ sandboxId, hostId }: Sandbox, requestId: string | null): Promise<number | null> {
    const [claimed] = await query<{ run: number; pg_notify: unknown }>(
      this.#em.fork(),
      `with claimed as (
         update sandboxes s set status = 'pausing', substatus = null, reason = 'user_requested', pausing_at = now(),
                moved_directly = true, updated_at = now()
           from hosts h
          where s.sandbox_id = ? and s.status = 'running' and s.run is not null and s.host_id = ?
            and h.host_id = s.host_id and h.hears_moves and h.lease_expires_at > now()
         returning s.sandbox_id, s.run),
       entry as (${insertSignal} from claimed)
       select run, pg_notify(?, ?) from claimed`,
      [sandboxId, hostId, workChannel(hostId), toWorkNotice('pause', sandboxId, requestId)],
    );
    return claimed?.run ?? null;
  }

  /**
   * `paused` → `resuming`, if admitted, for the API. A sandbox with mounts is resumed by its workflow.
   * @returns the run that begins; null when the sandbox is not paused, or its host does not listen
   * @throws {AppError} the errors of `admitResume`; then the row stays `paused`
   */
  async claimResume({ sandboxId }: Sandbox, requestId: string | null): Promise<number | null> {
    return this.#em.fork().transactional(async (tx) => {
      const [found] = await query<VersionedRow>(
        tx,
        `select s.*, s.xmin::text as version from sandboxes s join hosts h using (host_id)
          where s.sandbox_id = ? and s.status = 'paused' and s.run is not null and s.object_storage = '[]'
            and h.hears_moves and h.lease_expires_at > now()
            for update of s`,
        [sandboxId],
      );
      if (!found) return null;
      const row = readRow(tx, Sandbox, found);
      const run = row.run! + 1;
      const resume: Change = async (resuming) => {
        await admitResume(tx, this.#plans, resuming);
        enterResuming(resuming, run);
        resuming.status = 'resuming';
        resuming.movedDirectly = true;
      };
      await replaceVersion(tx, { row, version: found.version }, new Date(), resume);
      await query(tx, `with entry as (${insertSignal} from sandboxes where sandbox_id = ?) select pg_notify(?, ?)`, [
        sandboxId,
        workChannel(row.hostId),
        toWorkNotice('resume', sandboxId, requestId),
      ]);
      return run;
    });
  }

  /**
   * `created` → `starting`, for the host. @returns null when the sandbox has ended, was placed on another host, or its
   * workflow has begun the start
   */
  async claimStart(sandboxId: SandboxId, hostId: string): Promise<ClaimedMove | null> {
    const em = this.#em.fork();
    const [found] = await query<TakenRow>(
      em,
      `update sandboxes s set status = 'starting', substatus = 'allocating', run = ?, updated_at = now()
         from hosts h
        where s.sandbox_id = ? and s.status = 'created' and s.run is null and s.host_id = ?
          and h.host_id = s.host_id and h.lease_expires_at > now()
        returning s.*, s.xmin::text as version, now() as read_at`,
      [firstRun, sandboxId, hostId],
    );
    return found ? this.#taken(em, found, 'created') : null;
  }

  /**
   * Reads a claimed pause or resume, for the host.
   * @returns null when the workflow has taken the move over, or the sandbox has ended
   */
  async take(sandboxId: SandboxId, hostId: string, work: 'pause' | 'resume'): Promise<ClaimedMove | null> {
    const em = this.#em.fork();
    const [found] = await query<TakenRow>(
      em,
      `select s.*, s.xmin::text as version, now() as read_at
         from sandboxes s where s.sandbox_id = ? and s.host_id = ? and s.status = ? and s.moved_directly`,
      [sandboxId, hostId, work === 'pause' ? 'pausing' : 'resuming'],
    );
    return found ? this.#taken(em, found, work === 'pause' ? 'running' : 'paused') : null;
  }

  /**
   * `starting` or `resuming` → `running`, for the host.
   * @param readyAt the moment at which the sandbox was ready
   * @returns false when the claim no longer holds; nothing is written
   */
  finishRunning(claimed: ClaimedMove, place: RunningPlace, readyAt: Date): Promise<boolean> {
    const at = notBefore(claimed.row.phaseSince, readyAt);
    return this.#finish(claimed, at, (row, record) => {
      record(row.status === 'starting' ? 'sandbox.started' : 'sandbox.resumed');
      row.status = 'running';
      enterRunning(row, place, at);
    });
  }

  /**
   * `pausing` → `paused`, for the host.
   * @param frozenAt the moment at which the processes were frozen
   * @returns false when the claim no longer holds; nothing is written
   */
  finishPaused(claimed: ClaimedMove, frozenAt: Date, memoryKept: boolean): Promise<boolean> {
    const at = notBefore(claimed.row.phaseSince, frozenAt);
    return this.#finish(claimed, at, (row, record) => {
      record('sandbox.paused');
      row.status = 'paused';
      enterPaused(row, 'user_requested', at, memoryKept);
    });
  }

  /**
   * Clears `movedDirectly` and the signal in the outbox, for the workflow. A move in progress stays with its host, unless
   * the workflow takes it over. May be repeated.
   */
  async adopt(sandboxId: SandboxId, takeOver: boolean): Promise<AdoptedRow> {
    const em = this.#em.fork();
    const [found] = await query<EntityRow<Sandbox>>(
      em,
      `with adopted as (
         update sandboxes set moved_directly = false
          where sandbox_id = ? and moved_directly and (? or status not in ('pausing', 'resuming')) returning *),
       removed as (
         delete from outbox using adopted where workflow_id = adopted.sandbox_id and signal = '${movedDirectlySignal}')
       select * from adopted
       union all
       select * from sandboxes where sandbox_id = ? and not exists (select from adopted)`,
      [sandboxId, takeOver, sandboxId],
    );
    if (!found) throw new AppError('internal_error', `There is no sandbox ${sandboxId}`);
    const row = readRow(em, Sandbox, found);
    return {
      status: row.status,
      reason: row.reason ?? null,
      run: row.run ?? null,
      phase: row.phaseKind ?? null,
      phaseSinceMs: row.phaseSince?.getTime() ?? 0,
      timeoutFromMs: row.timeoutFrom?.getTime() ?? 0,
      memoryKept: row.holdsCompute,
      isMoving: row.movedDirectly,
    };
  }

  #taken(em: EntityManager, found: TakenRow, from: SandboxStatus): ClaimedMove {
    const row = readRow(em, Sandbox, found);
    this.#report({ ...row, status: from }, row);
    return { row, version: found.version, readAt: new Date(found.read_at) };
  }

  async #finish(claimed: ClaimedMove, at: Date, apply: Change): Promise<boolean> {
    const em = this.#em.fork();
    const { sandboxId, status, run, hostId, movedDirectly } = claimed.row;
    for (let found: Versioned = claimed; ; found = await readVersion(em, sandboxId, '')) {
      const { row } = found;
      const holds = row.status === status && row.run === run && row.hostId === hostId;
      if (!holds || row.movedDirectly !== movedDirectly) return false;
      const changed = await replaceVersion(em, found, at, (moved, record) => {
        moved.substatus = null;
        return apply(moved, record, null);
      });
      if (!changed) continue;
      this.#report(row, changed);
      return true;
    }
  }

  #report(before: Sandbox, row: Sandbox): void {
    const move = moveBetween(before, row);
    if (move) this.#onMove(move);
  }
}

/** The workflow's clock, which may be ahead of the database's, gave the start of the present phase. */
function notBefore(phaseSince: Date | null | undefined, at: Date): Date {
  return phaseSince && phaseSince > at ? phaseSince : at;
}

type TakenRow = VersionedRow & { read_at: string };

const movedDirectlySignal = 'movedDirectly';

/** The relay tells the workflow, which then takes the move over, if nothing else does within a few seconds. */
const insertSignal = `insert into outbox (workflow_type, workflow_id, signal, input, not_before)
  select 'sandbox', sandbox_id, '${movedDirectlySignal}', '{"takeOver": true}'::jsonb,
         now() + interval '${directMoveSeconds} seconds'`;
