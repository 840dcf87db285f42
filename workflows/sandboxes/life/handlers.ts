import type { UpdateDefinition } from '@temporalio/common';
import { condition, setHandler, uuid4 } from '@temporalio/workflow';
import { AppError } from '../../../domain/errors.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import type { StorageChange } from '../../../domain/sandboxes/object-storage.ts';
import type { Port } from '../../../domain/sandboxes/ports.ts';
import { isOver, type SandboxReason } from '../../../domain/sandboxes/state.ts';
import {
  requirePossibleTimeout,
  type TimeoutChange,
  type TimeoutReply,
  timeoutReply,
} from '../../../domain/sandboxes/timeout-change.ts';
import { arrivingRequest } from '../../request-ids.ts';
import { exposingOn, rows } from './activities.ts';
import { asRefusal, busy, endingRefusal, notPaused, notRunning, refused } from './failure.ts';
import {
  addPortUpdate,
  adoptUpdate,
  connectUpdate,
  endSignal,
  hostLostSignal,
  hostReportSignal,
  lifeQuery,
  movedDirectlySignal,
  pauseRequestedSignal,
  pauseUpdate,
  projectSwitchedSignal,
  removePortUpdate,
  restartUpdate,
  resumeUpdate,
  type StatusReply,
  settledUpdate,
  storageCredentialsUpdate,
  terminateUpdate,
  timeoutUpdate,
} from './messages.ts';
import type { SandboxState, Transition } from './state.ts';

/**
 * Sets the handler of each message of `messages.ts`. Keep the order: messages that arrive before the workflow's first
 * task are handled in the order in which their handlers are set.
 */
export function handleMessages(state: SandboxState): void {
  const commands = new SandboxCommands(state);
  const ports = new SandboxPorts(state.id);
  setHandler(settledUpdate, () => commands.settled());
  const handle = <R, A>(update: UpdateDefinition<R, [A]>, work: (argument: A) => Promise<R>, check: Check<A>) =>
    setHandler(update, afterAdoption(state, check, work), { validator: unlessAdopting(state, check) });
  handle(
    pauseUpdate,
    ({ wait }) => commands.pause(wait),
    () => requireRunning(state),
  );
  handle(
    resumeUpdate,
    ({ wait, storage }) => commands.resume(wait, storage ?? null),
    () => requirePaused(state),
  );
  handle(
    restartUpdate,
    ({ storage }) => commands.restart(storage),
    () => requireStable(state),
  );
  setHandler(storageCredentialsUpdate, ({ sealed, wait }) => commands.receiveCredentials(sealed, wait));
  handle(
    connectUpdate,
    ({ timeoutSeconds }) => commands.connect(timeoutSeconds),
    () => requireLiving(state),
  );
  handle(
    timeoutUpdate,
    (change) => commands.changeTimeout(change),
    (change) => requireChangeableTimeout(state, change),
  );
  handle(
    addPortUpdate,
    (port) => ports.add(state.plan.hostId, port),
    () => requireRunning(state),
  );
  handle(
    removePortUpdate,
    (port) => ports.remove(state.plan.hostId, port),
    () => requireRunning(state),
  );
  setHandler(terminateUpdate, ({ forget }) => commands.terminate(forget));
  setHandler(adoptUpdate, ({ takeOver }) => commands.adopt(takeOver));
  setHandler(endSignal, ({ forget }) => state.requestEnd(forget));

  setHandler(hostReportSignal, (report) => state.inbox.receive(report));
  setHandler(hostLostSignal, ({ hostId, run }) => receiveHostLoss(state, hostId, run));
  setHandler(movedDirectlySignal, ({ takeOver }) => state.requestAdoption(takeOver));
  setHandler(projectSwitchedSignal, ({ projectId }) => {
    state.plan.projectId = projectId;
    state.publish();
  });

  const pauseIfRunning = (reason: SandboxReason) => {
    if (state.status === 'running' && !state.isEnding()) state.requestPause(reason, false);
  };
  setHandler(pauseRequestedSignal, ({ reason }) =>
    state.isBehind() ? condition(() => !state.isBehind()).then(() => pauseIfRunning(reason)) : pauseIfRunning(reason),
  );

  setHandler(lifeQuery, () => state.view());
}

type Check<A> = (argument: A) => void;

/** A command that arrives while the row is being adopted waits for that, and is then checked. */
function afterAdoption<A, R>(state: SandboxState, check: Check<A>, work: (argument: A) => Promise<R>) {
  const wait = async (argument: A) => {
    await condition(() => !state.isBehind());
    check(argument);
    return work(argument);
  };
  return (argument: A) => (state.isBehind() ? wait(argument) : work(argument));
}

function unlessAdopting<A>(state: SandboxState, check: Check<A>): Check<A> {
  return (argument) => {
    if (!state.isBehind()) check(argument);
  };
}

/**
 * Drops a report about an earlier run, because the host may have come back and may run the sandbox again. A paused
 * sandbox needs only its disk, and the disk is there when the host is back.
 */
function receiveHostLoss(state: SandboxState, hostId: string, run: number | null): void {
  if (hostId !== state.plan.hostId) return;
  // The host was lost after a direct resume of which the workflow has not heard.
  if (state.status === 'paused' && run !== null && run > state.run) state.requestAdoption(true);
  else if (state.status === 'paused') return;
  const beginning = state.status === 'starting' || state.status === 'resuming';
  if (run !== null && run < (beginning ? state.attempts : state.run)) return;
  state.hostLoss.record(run);
}

/** Checks updates before the workflow accepts them. Validators read the state and change nothing. */

function requireLiving(state: SandboxState): void {
  if (state.end || isOver(state.status)) throw refused('sandbox_ended', 'The sandbox has ended');
}

function requireRunning(state: SandboxState): void {
  requireNotOver(state);
  if (state.end || state.status !== 'running') {
    throw notRunning(state.statusForCaller());
  }
}

function requirePaused(state: SandboxState): void {
  requireNotOver(state);
  if (state.end || state.status !== 'paused') {
    throw notPaused(state.statusForCaller());
  }
}

/** Requires that the sandbox is running or paused and no transition is in progress. */
function requireStable(state: SandboxState): void {
  requireLiving(state);
  if (state.status !== 'running' && state.status !== 'paused') {
    throw busy(state.statusForCaller());
  }
}

function requireChangeableTimeout(state: SandboxState, change: TimeoutChange): void {
  requireLiving(state);
  try {
    requirePossibleTimeout(state.phaseTimeout(), change, Date.now());
  } catch (error) {
    throw error instanceof AppError ? refused(error.code, error.message) : error;
  }
}

/** Refuses with the texts that the API uses once the workflow has closed. */
function requireNotOver({ status }: SandboxState): void {
  if (isOver(status)) throw refused('sandbox_ended', `The sandbox is ${status}`);
}

/** Handles the updates. Each update requests something from the workflow's loop and waits until it can reply. */
class SandboxCommands {
  readonly #state: SandboxState;
  #timeoutWrites: Promise<void> = Promise.resolve();

  constructor(state: SandboxState) {
    this.#state = state;
  }

  async settled(): Promise<StatusReply> {
    await condition(() => this.#state.status !== 'starting');
    return this.#state.reply();
  }

  async receiveCredentials(sealed: string, wait: boolean): Promise<StatusReply> {
    if (this.#state.status === 'starting') this.#state.sealedCredentials = sealed;
    return wait ? this.settled() : this.#state.reply();
  }

  async pause(wait: boolean): Promise<StatusReply> {
    return this.#replyTo(this.#state.requestPause('user_requested', !wait));
  }

  async resume(wait: boolean, storage: StorageChange | null): Promise<StatusReply> {
    return this.#replyTo(this.#state.requestResume(!wait, storage));
  }

  async restart(storage: StorageChange | null): Promise<StatusReply> {
    return this.#replyTo(this.#state.requestRestart(storage));
  }

  /** Waits until no transition is in progress, resumes the sandbox if it is paused, and replies when it runs. */
  async connect(timeoutSeconds: number | null): Promise<StatusReply> {
    const state = this.#state;
    const requestId = arrivingRequest();
    let resume: Transition | null = null;
    for (;;) {
      if (state.isEnding() || isOver(state.status)) throw refused('sandbox_ended', 'The sandbox has ended');
      if (state.status === 'running') break;
      // After a resume that came second to a direct move, the loop goes on from the row that was adopted.
      if (resume?.refusal && resume.refusal.type !== 'sandbox_not_paused') throw resume.refusal;
      if (state.status === 'paused') {
        resume = state.requestResume(false, null, requestId);
        resume.takesOver = true;
      }
      const before = state.status;
      await condition(() => state.status !== before || state.isEnding());
    }
    if (timeoutSeconds !== null) await this.#writeTimeout(timeoutSeconds, Date.now());
    return state.reply();
  }

  async changeTimeout(change: TimeoutChange): Promise<TimeoutReply> {
    const written = this.#writeTimeout(change.timeoutSeconds, null);
    // Made before the wait, because another change may be made during it.
    const reply = timeoutReply(this.#state.phaseTimeout());
    await written;
    return reply;
  }

  async adopt(takeOver: boolean): Promise<StatusReply> {
    const state = this.#state;
    state.requestAdoption(takeOver);
    await condition(() => (state.adoption === null && !state.isAdopting) || state.endRecorded);
    if (state.isEnding()) throw endingRefusal();
    return state.takenOver ? this.#replyTo(state.takenOver) : state.reply();
  }

  async terminate(forget: boolean): Promise<StatusReply> {
    this.#state.requestEnd(forget);
    await condition(() => this.#state.endRecorded);
    return this.#state.reply();
  }

  async #replyTo(transition: Transition): Promise<StatusReply> {
    const { answerEarly } = transition;
    await condition(() => transition.done || (transition.recorded && answerEarly) || this.#state.endRecorded);
    if (transition.refusal) throw transition.refusal;
    return this.#state.reply();
  }

  /** Writes one timeout after the other, so that the row ends with the value that was requested last. */
  #writeTimeout(timeoutSeconds: number, fromMs: number | null): Promise<void> {
    const state = this.#state;
    state.timeoutSeconds = timeoutSeconds;
    if (fromMs !== null) state.timeoutFromMs = fromMs;
    state.failedAutoPauses = 0;
    state.timeoutRevision += 1;
    state.publish();
    this.#timeoutWrites = this.#timeoutWrites.then(() => rows.recordTimeout(state.id, timeoutSeconds, fromMs));
    return this.#timeoutWrites;
  }
}

/** Changes the ports of one sandbox, one change after the other, so that row and host agree after each. */
class SandboxPorts {
  readonly #sandboxId: SandboxId;
  #last: Promise<unknown> = Promise.resolve();

  constructor(sandboxId: SandboxId) {
    this.#sandboxId = sandboxId;
  }

  /** @throws {ApplicationFailure} the refusal with its code. In that case no port was added. */
  add(hostId: string, port: Port): Promise<void> {
    const added = { ...port, addedBy: uuid4() };
    return this.#inTurn(async () => {
      await refusing(rows.recordPortAdded(this.#sandboxId, added));
      if (port.protocol !== 'UDP') return;
      try {
        await exposingOn(hostId).exposePorts(this.#sandboxId, null);
      } catch (error) {
        await rows.recordPortRemoved(this.#sandboxId, port.port);
        throw notExposed(error);
      }
    });
  }

  /** @throws {ApplicationFailure} the refusal with its code. In that case the port is still there. */
  remove(hostId: string, port: number): Promise<void> {
    return this.#inTurn(async () => {
      const { isUdp } = await refusing(rows.findRemovablePort(this.#sandboxId, port));
      if (isUdp) {
        // The host acts first: once the row releases the host's port, another sandbox may get it.
        await exposingOn(hostId)
          .exposePorts(this.#sandboxId, port)
          .catch((error) => {
            throw notExposed(error);
          });
      }
      await rows.recordPortRemoved(this.#sandboxId, port);
    });
  }

  #inTurn(change: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(change);
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}

/** Turns the failure of a local activity into the refusal of the update. */
async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asRefusal(error, 'temporarily_unavailable');
  }
}

function notExposed(error: unknown): Error {
  const { message } = asRefusal(error, 'temporarily_unavailable');
  return refused('temporarily_unavailable', `The host could not change its UDP ports: ${message}`);
}
