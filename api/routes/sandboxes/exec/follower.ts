import type { FastifyReply } from 'fastify';
import type { Logger } from 'pino';
import { usableCredentials } from '../../../../db/accounts/identities.ts';
import type { Orm } from '../../../../db/orm.ts';
import { findSandboxRoute } from '../../../../db/sandboxes/sandbox-routes.ts';
import { findSandboxStatus } from '../../../../db/sandboxes/sandbox-status.ts';
import { BoundedCounts } from '../../../../domain/bounded-counts.ts';
import { AppError } from '../../../../domain/errors.ts';
import { FairTurns } from '../../../../domain/fair-turns.ts';
import type { SandboxId } from '../../../../domain/ids.ts';
import { isOver } from '../../../../domain/sandboxes/state.ts';
import type { Api, ApiDependencies } from '../../../dependencies.ts';
import { keepaliveMs } from '../../../event-streams.ts';
import { type AgentRow, askAgent } from './agents.ts';
import { type ExecFailure, execStream } from './events.ts';
import type { StreamedExecution } from './tokens.ts';

/**
 * The agent of a silent execution is asked about it once a minute. The stream ends when the agent fails to confirm the
 * execution three times.
 */
const silencesPerQuestion = 4;
const unconfirmedLimit = 3;
/** The reads of all streams in one turn of the event loop. An agent may send 64 KiB of tiny events, which take 3 ms. */
const readsPerTurn = 1;

/** Follows executions for the replies of this process: for streams, and for callers who wait for the end. */
class ExecFollower {
  readonly #deps: ApiDependencies;
  readonly #limits: ExecStreamLimits;
  readonly #credentials: CredentialWatch;
  readonly #closing = new AbortController();
  readonly #turns = new FairTurns(readsPerTurn);

  constructor(api: Api, deps: ApiDependencies) {
    this.#deps = deps;
    const { PLATFORM_EXEC_STREAMS_PER_CALLER: perCaller, PLATFORM_EXEC_STREAMS_PER_SANDBOX: perSandbox } =
      deps.settings;
    this.#limits = new ExecStreamLimits(perCaller, perSandbox);
    this.#credentials = new CredentialWatch(deps);
    api.addHook('preClose', async () => this.#closing.abort());
  }

  /**
   * Counts a reply that follows an execution. @returns a function that removes it from the count @throws {AppError}
   * when there are too many
   */
  admit(caller: string, sandboxId: SandboxId): () => void {
    return this.#limits.add(caller, sandboxId);
  }

  /**
   * The events after number `after`, until the reply's connection closes or the key or session is removed. Null: there
   * are no further events.
   */
  async follow(
    row: AgentRow,
    { executionId, credentialId, after }: StreamedExecution & { after: number },
    reply: FastifyReply,
  ): Promise<AsyncGenerator<Buffer> | null> {
    const deps = this.#deps;
    const events = await askAgent(deps, row, (place) => deps.sandboxAgents.readEvents(place, executionId, after));
    if (!events) return null;
    reply.raw.once('close', () => events.destroy());
    if (reply.raw.destroyed) events.destroy();
    let isRevoked = false;
    const forget = this.#credentials.watch(credentialId, () => {
      isRevoked = true;
      events.destroy();
    });
    reply.raw.once('close', forget);
    if (reply.raw.destroyed) forget();
    return execStream(events, {
      keepaliveMs,
      signal: this.#closing.signal,
      turn: () => new Promise((resolve) => this.#turns.run(credentialId, resolve)),
      onSilence: silenceWatch(deps, row.sandboxId, executionId),
      onBreak: async () => {
        if (reply.raw.destroyed) return null;
        return isRevoked ? credentialRevoked : ((await findEnd(deps, row.sandboxId)) ?? interrupted);
      },
    });
  }
}

const followers = new WeakMap<ApiDependencies, ExecFollower>();

/** All routes of an app share one follower, because they share its limits. */
export function getExecFollower(api: Api, deps: ApiDependencies): ExecFollower {
  const follower = followers.get(deps) ?? new ExecFollower(api, deps);
  followers.set(deps, follower);
  return follower;
}

const credentialRevoked: ExecFailure = {
  code: 'credential_revoked',
  message: 'The API key or session of this stream has ended, or its user is disabled',
};

const interrupted: ExecFailure = {
  code: 'exec_interrupted',
  message: 'The connection to the sandbox broke; the command may still run',
};

/**
 * Runs after each silence. A command may be silent while it runs, and a paused sandbox for days. So a silent stream
 * only ends when the sandbox has ended, or when the sandbox runs and its agent no longer confirms the execution.
 */
function silenceWatch(
  deps: ApiDependencies,
  sandboxId: SandboxId,
  executionId: string,
): () => Promise<ExecFailure | null> {
  let silences = 0;
  let unconfirmed = 0;
  return async () => {
    const route = await findSandboxRoute(deps.orm.em, sandboxId);
    if (route?.status !== 'running') {
      unconfirmed = 0;
      return findEnd(deps, sandboxId);
    }
    silences += 1;
    if (silences % silencesPerQuestion !== 0) return null;
    const confirmed = await isExecutionThere(deps, { ...route, agentAddress: route.address }, executionId);
    unconfirmed = confirmed ? 0 : unconfirmed + 1;
    return unconfirmed < unconfirmedLimit ? null : interrupted;
  };
}

async function isExecutionThere(deps: ApiDependencies, row: AgentRow, executionId: string): Promise<boolean> {
  try {
    return (await askAgent(deps, row, (place) => deps.sandboxAgents.findExecution(place)))?.executionId === executionId;
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

/** Null: the sandbox has not ended. It may be frozen. */
async function findEnd(deps: ApiDependencies, sandboxId: SandboxId): Promise<ExecFailure | null> {
  const now = await findSandboxStatus(deps.orm.em, sandboxId);
  if (now && now.status !== 'terminating' && !isOver(now.status)) return null;
  return { code: 'sandbox_ended', message: `The sandbox is ${now?.status ?? 'deleted'}` };
}

/**
 * Limits the open exec streams of this process. While its command runs, each stream holds a connection to its reader, a
 * connection to the agent, and timers. Limits of requests per minute do not bound them.
 */
class ExecStreamLimits {
  readonly #ofCallers: BoundedCounts;
  readonly #ofSandboxes: BoundedCounts;

  constructor(perCaller: number, perSandbox: number) {
    this.#ofCallers = new BoundedCounts(perCaller, 'exec-streams-of-caller');
    this.#ofSandboxes = new BoundedCounts(perSandbox, 'exec-streams-of-sandbox');
  }

  /**
   * Counts one more stream.
   * @returns a function that removes the stream from the counts
   * @throws {AppError} `too_many_requests`, `exec_stream_limit_reached`
   */
  add(caller: string, sandboxId: SandboxId): () => void {
    if (!this.#ofCallers.tryAdd(caller)) {
      throw new AppError('too_many_requests', 'You have too many exec streams open; close one of them');
    }
    if (!this.#ofSandboxes.tryAdd(sandboxId)) {
      this.#ofCallers.remove(caller);
      throw new AppError('exec_stream_limit_reached', 'The sandbox has too many exec streams open; close one of them');
    }
    return () => {
      this.#ofCallers.remove(caller);
      this.#ofSandboxes.remove(sandboxId);
    };
  }
}

const checkMs = 1000;

/**
 * Ends the streams of this process within two seconds after their key or session was removed, or their user was
 * disabled. It polls the database, because pushed notifications can be lost with their connection.
 */
class CredentialWatch {
  readonly #orm: Orm;
  readonly #logger: Logger;
  readonly #streams = new Map<string, Set<() => void>>();
  #timer: NodeJS.Timeout | null = null;

  constructor(deps: { orm: Orm; logger: Logger }) {
    this.#orm = deps.orm;
    this.#logger = deps.logger;
  }

  /**
   * @param credentialId the id of a key or a session
   * @param end is called at most once
   * @returns a function that removes the stream from the watch
   */
  watch(credentialId: string, end: () => void): () => void {
    const streams = this.#streams.get(credentialId) ?? new Set();
    this.#streams.set(credentialId, streams);
    streams.add(end);
    this.#timer ??= setTimeout(() => this.#check(), checkMs).unref();
    return () => {
      streams.delete(end);
      if (streams.size === 0 && this.#streams.get(credentialId) === streams) this.#streams.delete(credentialId);
    };
  }

  async #check(): Promise<void> {
    try {
      const watched = [...this.#streams.keys()];
      const usable = await usableCredentials(this.#orm.em, watched);
      for (const credentialId of watched) if (!usable.has(credentialId)) this.#end(credentialId);
    } catch (error) {
      this.#logger.warn({ err: error }, 'the credentials of open streams could not be checked');
    }
    this.#timer = this.#streams.size > 0 ? setTimeout(() => this.#check(), checkMs).unref() : null;
  }

  #end(credentialId: string): void {
    const streams = this.#streams.get(credentialId) ?? [];
    this.#streams.delete(credentialId);
    for (const end of streams) end();
  }
}
