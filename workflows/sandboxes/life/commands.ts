import { condition } from '@temporalio/workflow';
import type { StorageChange } from '../../../domain/sandboxes/object-storage.ts';
import { isOver } from '../../../domain/sandboxes/state.ts';
import { type TimeoutChange, type TimeoutReply, timeoutReply } from '../../../domain/sandboxes/timeout-change.ts';
import { arrivingRequest } from '../../request-ids.ts';
import { rows } from './activities.ts';
import { refused } from './failure.ts';
import type { StatusReply } from './messages.ts';
import type { SandboxState, Transition } from './state.ts';

/** Handles the updates. Each update requests something from the workflow's loop and waits until it can reply. */
export class SandboxCommands {
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
      if (resume?.refusal) throw resume.refusal;
      if (state.status === 'running') break;
      if (state.status === 'paused') resume = state.requestResume(false, null, requestId);
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
