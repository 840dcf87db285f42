import type { FastifyReply } from 'fastify';
import { findSandboxRoute } from '../../../db/sandboxes/sandbox-routes.ts';
import { findSandboxStatus } from '../../../db/sandboxes/sandbox-status.ts';
import { AppError } from '../../../domain/errors.ts';
import { FairTurns } from '../../../domain/fair-turns.ts';
import type { SandboxId } from '../../../domain/ids.ts';
import { isOver } from '../../../domain/sandboxes/state.ts';
import { CredentialWatch } from '../../credential-watch.ts';
import type { Api, ApiDependencies } from '../../dependencies.ts';
import { type ExecFailure, execStream } from '../../exec-stream.ts';
import { ExecStreamLimits } from '../../exec-stream-limits.ts';
import type { StreamedRun } from '../../exec-tokens.ts';
import { type AgentRow, askAgent } from './exec-agent.ts';

const keepaliveMs = 15_000;
/**
 * The agent of a silent run is asked about it once a minute. The stream ends when the agent fails to confirm the run
 * three times.
 */
const silencesPerQuestion = 4;
const unconfirmedLimit = 3;
/** The reads of all streams in one turn of the event loop. An agent may send 64 KiB of tiny events, which take 3 ms. */
const readsPerTurn = 1;

/** Follows runs for the replies of this process: for streams, and for callers who wait for the end. */
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
   * Counts a reply that follows a run. @returns a function that removes it from the count @throws {AppError} when there
   * are too many
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
    { runId, credentialId, after }: StreamedRun & { after: number },
    reply: FastifyReply,
  ): Promise<AsyncGenerator<Buffer> | null> {
    const deps = this.#deps;
    const events = await askAgent(deps, row, (place) => deps.sandboxAgents.readRun(place, runId, after));
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
      onSilence: silenceWatch(deps, row.sandboxId, runId),
      onBreak: async () => {
        if (reply.raw.destroyed) return null;
        return isRevoked ? credentialRevoked : ((await endOf(deps, row.sandboxId)) ?? interrupted);
      },
    });
  }
}

const followers = new WeakMap<ApiDependencies, ExecFollower>();

/** All routes of an app share one follower, because they share its limits. */
export function execFollowerOf(api: Api, deps: ApiDependencies): ExecFollower {
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
 * only ends when the sandbox has ended, or when the sandbox runs and its agent no longer confirms the run.
 */
function silenceWatch(deps: ApiDependencies, sandboxId: SandboxId, runId: string): () => Promise<ExecFailure | null> {
  let silences = 0;
  let unconfirmed = 0;
  return async () => {
    const route = await findSandboxRoute(deps.orm.em, sandboxId);
    if (route?.status !== 'running') {
      unconfirmed = 0;
      return endOf(deps, sandboxId);
    }
    silences += 1;
    if (silences % silencesPerQuestion !== 0) return null;
    const confirmed = await isRunThere(deps, { ...route, agentAddress: route.address }, runId);
    unconfirmed = confirmed ? 0 : unconfirmed + 1;
    return unconfirmed < unconfirmedLimit ? null : interrupted;
  };
}

async function isRunThere(deps: ApiDependencies, row: AgentRow, runId: string): Promise<boolean> {
  try {
    return (await askAgent(deps, row, (place) => deps.sandboxAgents.findRun(place)))?.runId === runId;
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

/** Null: the sandbox has not ended. It may be frozen. */
async function endOf(deps: ApiDependencies, sandboxId: SandboxId): Promise<ExecFailure | null> {
  const now = await findSandboxStatus(deps.orm.em, sandboxId);
  if (now && now.status !== 'terminating' && !isOver(now.status)) return null;
  return { code: 'sandbox_ended', message: `The sandbox is ${now?.status ?? 'deleted'}` };
}
