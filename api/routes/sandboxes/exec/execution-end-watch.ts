import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Orm } from '../../../../db/orm.ts';
import {
  askAgain,
  claimWatchedExecutions,
  forgetExecution,
  type ReportedEnd,
  reportExecutionEnd,
  type WatchedExecution,
  type WatchedSandbox,
} from '../../../../db/usage/watched-executions.ts';
import type { AccountId } from '../../../../domain/ids.ts';
import { isOver } from '../../../../domain/sandboxes/state.ts';
import { type AgentPlace, AgentRefusal, AgentUnreachable, type DescribedEnd, type SandboxAgents } from './agents.ts';

/** The maximum number of sandboxes that one process asks at once, in total and of one account. */
const most = { sandboxes: 256, perAccount: 64 };
/** How long an agent may wait for an end before it answers, if the process is not busy. */
const waitMs = 20_000;
const idleMs = 1000;
/** How soon an agent is asked again if it may not wait. */
const pollMs = 2000;
const troubleMs = 5000;
/** A paused or unreachable sandbox is asked again after this time. */
const laterMs = 5000;
/**
 * An agent ends an execution at its deadline. After the deadline, an unreachable agent is asked for this much longer.
 */
const graceMs = 300_000;

/** The errors of an end that an agent may report. */
const knownErrors = new Set(['cancelled', 'deadline_exceeded']);

/**
 * Reports the ends of watched commands as events, even if no client reads their output. The watched executions are in
 * Postgres, so any API process continues the watch when another stops. Each execution that the platform started has one
 * event, so a hostile agent cannot cause more.
 */
export class ExecutionEndWatch {
  readonly #orm: Orm;
  readonly #agents: SandboxAgents;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  readonly #asked = new Map<string, { accountId: AccountId; done: Promise<void> }>();
  #wake: () => void = () => {};
  #running: Promise<void> | null = null;

  constructor(deps: { orm: Orm; sandboxAgents: SandboxAgents; logger: Logger }) {
    this.#orm = deps.orm;
    this.#agents = deps.sandboxAgents;
    this.#logger = deps.logger;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Leaves unanswered questions to other processes. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await this.#running;
    await Promise.all([...this.#asked.values()].map(({ done }) => done));
  }

  /** Call this when there is a new execution to watch. */
  wake(): void {
    this.#wake();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      let pauseMs = idleMs;
      try {
        await this.#askDue();
      } catch (error) {
        this.#logger.warn({ err: error }, 'ends of commands could not be reported; trying again');
        pauseMs = troubleMs;
      }
      const timeout = new AbortController();
      await Promise.race([woken, delay(pauseMs, undefined, { signal: timeout.signal }).catch(() => undefined)]);
      timeout.abort();
    }
  }

  async #askDue(): Promise<void> {
    const freeSlots = most.sandboxes - this.#asked.size;
    for (const sandbox of await claimWatchedExecutions(this.#orm.em, { ...most, sandboxes: freeSlots })) {
      const executionIds = sandbox.executions.map(({ executionId }) => executionId);
      if (this.#asked.has(sandbox.sandboxId) || this.#countAsked(sandbox.accountId) >= most.perAccount) {
        await askAgain(this.#orm.em, executionIds, idleMs);
        continue;
      }
      const done = this.#askAll(sandbox)
        .catch((error) =>
          this.#logger.warn({ err: error, sandboxId: sandbox.sandboxId }, 'the end of a command could not be reported'),
        )
        .finally(() => this.#asked.delete(sandbox.sandboxId));
      this.#asked.set(sandbox.sandboxId, { accountId: sandbox.accountId, done });
    }
  }

  #countAsked(accountId: AccountId): number {
    return [...this.#asked.values()].filter((each) => each.accountId === accountId).length;
  }

  async #askAll(sandbox: WatchedSandbox): Promise<void> {
    const { em } = this.#orm;
    for (const [index, execution] of sandbox.executions.entries()) {
      const isNewest = index === sandbox.executions.length - 1;
      const answer = this.#stopping.signal.aborted ? { askAgainMs: 0 } : await this.#ask(sandbox, execution, isNewest);
      if ('askAgainMs' in answer) {
        // Executions that began later have not ended either, so they wait as long.
        const rest = sandbox.executions.slice(index).map(({ executionId }) => executionId);
        await askAgain(em, rest, answer.askAgainMs);
        if (answer.askAgainMs === 0) this.#wake();
        return;
      }
      if (execution.hasStarted || answer.isKnown) await reportExecutionEnd(em, sandbox, execution, answer.end);
      else await forgetExecution(em, execution.executionId);
    }
  }

  async #ask(
    sandbox: WatchedSandbox,
    execution: WatchedExecution,
    mayWait: boolean,
  ): Promise<{ askAgainMs: number } | { end: ReportedEnd; isKnown: boolean }> {
    const { status, hostId, agentAddress, agentPort, sandboxId, secretKeyNumber } = sandbox;
    if (status === 'terminating' || isOver(status)) return { end: without('sandbox_ended'), isKnown: false };
    if (status !== 'running' || !agentAddress || !agentPort) return { askAgainMs: laterMs };
    const place: AgentPlace = { sandboxId, secretKeyNumber, hostId, address: agentAddress, port: agentPort };
    const hasFreeSlots =
      this.#asked.size <= most.sandboxes / 2 && this.#countAsked(sandbox.accountId) <= most.perAccount / 2;
    const { signal } = this.#stopping;
    try {
      const end = await this.#agents.readExecutionEnd(place, execution.executionId, {
        waitMs: mayWait && hasFreeSlots ? waitMs : 0,
        signal,
      });
      if (!end) return { askAgainMs: hasFreeSlots ? 0 : pollMs };
      return { end: believable(end, execution), isKnown: true };
    } catch (error) {
      if (signal.aborted) return { askAgainMs: 0 };
      // The agent was restarted, or does not know the execution for another reason.
      if (error instanceof AgentRefusal) return { end: without('exec_interrupted'), isKnown: false };
      if (!(error instanceof AgentUnreachable)) throw error;
      if (Date.now() < execution.deadline.getTime() + graceMs) return { askAgainMs: laterMs };
      return { end: without('exec_interrupted'), isKnown: false };
    }
  }
}

const without = (error: string): ReportedEnd => ({ exitCode: null, error, durationMs: null });

/** Corrects an agent's answer to possible values, because root in a sandbox may have replaced the agent. */
function believable(answer: DescribedEnd, execution: WatchedExecution): ReportedEnd {
  const elapsedMs = Math.max(0, Date.now() - Date.parse(execution.startedAt));
  const durationMs = Math.min(answer.durationMs, elapsedMs);
  const { error, exitCode } = answer;
  if (error !== null && knownErrors.has(error)) return { exitCode: null, error, durationMs };
  if (error !== null || exitCode === null) return { exitCode: null, error: 'exec_interrupted', durationMs };
  return { exitCode, error: null, durationMs };
}
