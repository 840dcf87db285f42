import {
  type ApplicationFailure,
  CancellationScope,
  setCurrentDetails,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import type { SandboxId } from '../../../domain/ids.ts';
import { persistenceExpiresAt } from '../../../domain/sandboxes/clock.ts';
import type { LifePlan } from '../../../domain/sandboxes/life-plan.ts';
import type { StorageChange } from '../../../domain/sandboxes/object-storage.ts';
import { isOver, type SandboxReason, type SandboxStatus } from '../../../domain/sandboxes/state.ts';
import type { PhaseTimeout } from '../../../domain/sandboxes/timeout-change.ts';
import { sandboxSearchAttributes } from '../../../platform/temporal/search-attributes.ts';
import { arrivingRequest } from '../../request-ids.ts';
import { HostLoss, SandboxInbox } from './host-reports.ts';
import type { CarriedState, SandboxLifeView, SandboxWorkflowInput, StatusReply } from './messages.ts';

/** The delay before a failed auto-pause is tried again. */
const autoPauseRetryMs = 20_000;

/** A requested pause, resume or restart, until it has succeeded or failed. */
export interface Transition {
  /** Reply at `pausing` or `resuming` instead of waiting for `paused` or `running`. */
  answerEarly: boolean;
  /** The row says `pausing` or `resuming`. */
  recorded: boolean;
  done: boolean;
  /** The caller's error, when the transition failed. */
  refusal: ApplicationFailure | null;
  /** The id of the request that asked for the transition. Null: no request did. */
  requestId: string | null;
  /** The status to return to if a direct move came first and is still in progress. */
  before: StatusReply;
  /** It finishes a direct move that is in progress, instead of being refused. */
  takesOver: boolean;
}

export interface Pause extends Transition {
  reason: SandboxReason;
}

export interface Resume extends Transition {
  storage: StorageChange | null;
}

export interface Restart extends Transition {
  /** The status to return to if the restart is refused before any process was ended. */
  from: 'running' | 'paused';
  storage: StorageChange | null;
}

/** A request to end the sandbox. */
interface End {
  reason: SandboxReason;
  /** Answer 404 for the sandbox when its data is gone. */
  forget: boolean;
  /** The id of the request that asked for the end. Null: no request did. */
  requestId: string | null;
  /** The reason of the first who asked for the end. Absent: only a timer of the workflow has. */
  asked?: SandboxReason;
}

/** The state of one sandbox's workflow. The phases and the message handlers share it. Times are Unix milliseconds. */
export class SandboxState {
  readonly id: SandboxId;
  readonly plan: LifePlan;
  readonly hostLoss = new HostLoss();
  /** Reports of hosts. Each wait of a running or paused sandbox reads them. */
  readonly inbox: SandboxInbox;

  #status: SandboxStatus = 'starting';
  #reason: SandboxReason | null = null;
  /** The search attributes that were published last. The workflow starts with its first ones. */
  #published: string;

  /** The first start waits for the credentials of the sandbox's mounts. */
  readonly awaitsCredentials: boolean;
  /** These credentials, encrypted for the host. They are dropped after the first start. */
  sealedCredentials: string | null = null;

  timeoutSeconds: number;
  /** The start of the running phase, or the start of its timeout if `connect` began it again. */
  timeoutFromMs = 0;
  /** Changes with every new timeout, so that a wait for the old one ends. */
  timeoutRevision = 0;
  failedAutoPauses = 0;

  pausedAtMs = 0;
  /** The processes of the paused sandbox still exist, frozen. */
  memoryKept = true;
  expiryWarned = false;
  /** The time at which usage was last recorded, at the start of the running phase or after a full hour of it. */
  usageRecordedMs = 0;

  pause: Pause | null = null;
  resume: Resume | null = null;
  restart: Restart | null = null;
  /** The row was moved directly and has to be adopted. `take over`: also finish a move that is in progress. */
  adoption: 'look' | 'take over' | null = null;
  isAdopting = false;
  /** The direct move that the last adoption took over. */
  takenOver: Transition | null = null;
  end: End | null = null;
  /** The reason of the failure as text for people. */
  failure: string | null = null;
  /** The row says `terminating`, or the sandbox has failed. */
  endRecorded = false;
  /** The work on the host that a request to end cancels. */
  cancellableWork: CancellationScope | null = null;

  /** The number of the start or resume that brought up the current processes. 0 before the first has succeeded. */
  run = 0;
  /** The number of the last attempted start or resume. */
  attempts = 0;

  constructor({ sandboxId, plan, timeoutSeconds, awaitsCredentials, running, carried }: SandboxWorkflowInput) {
    this.id = sandboxId;
    this.plan = plan;
    this.timeoutSeconds = timeoutSeconds;
    this.awaitsCredentials = awaitsCredentials ?? false;
    this.inbox = new SandboxInbox(carried?.reports);
    if (running) this.#adopt(running);
    this.#published = carried ? '' : JSON.stringify(sandboxSearchAttributes(plan, this.#status));
    if (carried) this.#restore(carried);
  }

  get status(): SandboxStatus {
    return this.#status;
  }

  get reason(): SandboxReason | null {
    return this.#reason;
  }

  setStatus(status: SandboxStatus, reason: SandboxReason): void {
    this.#status = status;
    this.#reason = reason;
    this.publish();
  }

  enterRunning(atMs: number, run: number, reason: SandboxReason): void {
    this.run = run;
    this.timeoutFromMs = atMs;
    this.usageRecordedMs = atMs;
    this.failedAutoPauses = 0;
    this.setStatus('running', reason);
  }

  enterPaused(atMs: number, reason: SandboxReason, memoryKept: boolean): void {
    this.pausedAtMs = atMs;
    this.memoryKept = memoryKept;
    this.expiryWarned = false;
    this.setStatus('paused', reason);
  }

  /** @returns the number of a start or resume that begins now. The host repeats it in its reports on the processes. */
  nextAttempt(): number {
    this.attempts += 1;
    return this.attempts;
  }

  requestPause(reason: SandboxReason, answerEarly: boolean): Pause {
    const before = this.reply();
    this.setStatus('pausing', reason);
    this.pause = { ...newTransition(before, answerEarly), reason, takesOver: reason !== 'user_requested' };
    return this.pause;
  }

  /** @param requestId the id of the request that asks for the resume */
  requestResume(answerEarly: boolean, storage: StorageChange | null = null, requestId = arrivingRequest()): Resume {
    const before = this.reply();
    this.setStatus('resuming', 'user_requested');
    this.resume = { ...newTransition(before, answerEarly), storage, requestId };
    return this.resume;
  }

  requestRestart(storage: StorageChange | null): Restart {
    const before = this.reply();
    const from = this.#status === 'paused' ? 'paused' : 'running';
    this.setStatus('resuming', 'restarted');
    this.restart = { ...newTransition(before, false), from, storage };
    return this.restart;
  }

  requestEnd(forget: boolean, reason: SandboxReason = 'user_requested'): void {
    this.end ??= { reason, forget, requestId: arrivingRequest() };
    this.end.forget ||= forget;
    this.end.asked ??= reason;
    this.cancellableWork?.cancel();
  }

  requestAdoption(takeOver: boolean): void {
    if (isOver(this.#status)) return;
    if (takeOver) this.adoption = 'take over';
    else this.adoption ??= 'look';
  }

  /** The row is being adopted, so the status is not known now. */
  isBehind(): boolean {
    if (this.endRecorded || this.end?.asked || isOver(this.#status)) return false;
    return this.isAdopting || (this.adoption !== null && !this.pause && !this.resume && !this.restart);
  }

  isEnding(): boolean {
    return this.end !== null;
  }

  /** A scope that a request to end cancels, also one that has already arrived. */
  scopeOfWork(): CancellationScope {
    const scope = new CancellationScope();
    this.cancellableWork = scope;
    if (this.isEnding()) scope.cancel();
    return scope;
  }

  /** A running phase lasts until the sandbox is paused; the timeout applies to it. */
  inRunningPhase(): boolean {
    return this.#status === 'running' || this.#status === 'pausing';
  }

  phaseTimeout(): PhaseTimeout {
    return { timeoutSeconds: this.timeoutSeconds, fromMs: this.inRunningPhase() ? this.timeoutFromMs : null };
  }

  /** When the timeout of the running phase acts. After a failed auto-pause it is somewhat later. */
  deadlineMs(): number {
    return this.timeoutFromMs + this.timeoutSeconds * 1000 + this.failedAutoPauses * autoPauseRetryMs;
  }

  /** The status that callers see. A request to end counts before the row says `terminating`. */
  statusForCaller(): SandboxStatus {
    return this.end && !isOver(this.#status) ? 'terminating' : this.#status;
  }

  reply(): StatusReply {
    return { status: this.#status, reason: this.#reason };
  }

  /** Publishes the current state for operators: search attributes and, in the Temporal Web UI, current details. */
  publish(): void {
    setCurrentDetails(formatDetails(this.view()));
    const attributes = sandboxSearchAttributes(this.plan, this.#status);
    const serialized = JSON.stringify(attributes);
    if (serialized === this.#published) return;
    this.#published = serialized;
    upsertSearchAttributes(attributes);
  }

  view(): SandboxLifeView {
    const paused = this.#status === 'paused';
    const deadline = this.inRunningPhase()
      ? new Date(this.deadlineMs())
      : paused
        ? persistenceExpiresAt(new Date(this.pausedAtMs), this.plan.persistenceDays)
        : null;
    return {
      status: this.#status,
      reason: this.#reason,
      hostId: this.plan.hostId,
      nextDeadline: deadline?.toISOString() ?? null,
      nextAction: deadline === null ? null : paused ? 'expire' : this.plan.autoPause ? 'auto_pause' : 'timeout',
      failure: this.failure,
    };
  }

  /** The state of a running or paused sandbox for the next run of the workflow. */
  carry(): CarriedState {
    return {
      status: this.#status === 'paused' ? 'paused' : 'running',
      reason: this.#reason,
      timeoutFromMs: this.timeoutFromMs,
      pausedAtMs: this.pausedAtMs,
      memoryKept: this.memoryKept,
      usageRecordedMs: this.usageRecordedMs,
      run: this.run,
      attempts: this.attempts,
      reports: this.inbox.carry(),
    };
  }

  /** The host started the sandbox before this workflow began. */
  #adopt({ run, sinceMs }: NonNullable<SandboxWorkflowInput['running']>): void {
    this.#status = 'running';
    this.#reason = 'user_requested';
    this.timeoutFromMs = sinceMs;
    this.usageRecordedMs = sinceMs;
    this.run = run;
    this.attempts = run;
  }

  #restore(carried: CarriedState): void {
    this.#status = carried.status;
    this.#reason = carried.reason;
    this.timeoutFromMs = carried.timeoutFromMs;
    this.pausedAtMs = carried.pausedAtMs;
    this.memoryKept = carried.memoryKept;
    this.usageRecordedMs = carried.usageRecordedMs;
    this.run = carried.run;
    this.attempts = carried.attempts;
  }
}

const newTransition = (before: StatusReply, answerEarly: boolean): Transition => ({
  before,
  takesOver: false,
  answerEarly,
  recorded: false,
  done: false,
  refusal: null,
  requestId: arrivingRequest(),
});

/** The workflow's current details, one line in the Temporal Web UI: the status and the next action. */
function formatDetails({ status, reason, nextAction, nextDeadline, failure }: SandboxLifeView): string {
  const at = nextDeadline === null ? '' : formatMinute(nextDeadline);
  if (status === 'running') {
    return nextAction === 'auto_pause'
      ? `running; pauses at ${at} unless extended`
      : `running; ends at ${at} unless extended`;
  }
  const shown = reason === null || reason === 'user_requested' ? status : `${status} (${reason})`;
  if (status === 'paused') return `${shown}; ${at === '' ? 'kept without end' : `deleted at ${at} unless resumed`}`;
  return failure === null ? shown : `${shown}: ${failure}`;
}

/** @param time RFC 3339 in UTC */
const formatMinute = (time: string) => `${time.slice(0, 10)} ${time.slice(11, 16)} UTC`;
