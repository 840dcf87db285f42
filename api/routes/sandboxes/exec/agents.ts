import { z } from 'zod';
import type { Orm } from '../../../../db/orm.ts';
import { findSandboxStatus } from '../../../../db/sandboxes/sandbox-status.ts';
import { AppError, type ErrorCode } from '../../../../domain/errors.ts';
import type { SandboxId } from '../../../../domain/ids.ts';
import type { SandboxStatus } from '../../../../domain/sandboxes/state.ts';
import { type HostTunnels, LastHopUnavailable } from '../../../../gateway/last-hop/last-hops.ts';
import { openTunnel } from '../../../../gateway/last-hop/tunnel.ts';
import {
  type AgentEndpoint,
  type AgentReply,
  callAgent,
  callAgentForStream,
  type PlatformCall,
  SandboxStream,
  UnusableReply,
} from '../../../../platform/agent-client/sandbox-exchange.ts';
import type { PlatformSecrets } from '../../../../platform/config/secrets.ts';

/** The time limit of an agent for a reply, and for the first byte of a stream. */
const replyMs = 10_000;
/** A described execution contains its command, and JSON escapes may make the command six times longer. */
const maxReplyBytes = 1024 * 1024;
/** A message for users. */
const maxMessageLength = 1024;
/** The end of an execution has only a few numbers. */
const maxEndBytes = 4096;
const endReplyMs = 5000;

/** The address of a running sandbox's agent in the hosts' network. */
export interface AgentPlace {
  sandboxId: SandboxId;
  /** The number of the secret key from which the sandbox's tokens are derived. */
  secretKeyNumber: number;
  /** Null: the host is unknown, and the agent is reached directly. */
  hostId: string | null;
  address: string;
  port: number;
}

/** A command for an agent (agent/BOOT.md). */
interface ExecutionRequest {
  executionId: string;
  command: string;
  cwd: string;
  env: Record<string, string>;
  stdin: string;
  owner: string;
  startedAt: string;
  deadline: string;
  timeoutMs: number;
}

/** A time of an execution, with nine decimals. */
export const executionTime = z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/);

/** An agent's state of its newest execution. Root inside a sandbox can forge it, but only for that sandbox. */
const describedExecution = z
  .object({
    runId: z.string().regex(/^\w{1,64}$/),
    owner: z.string().max(128),
    command: z.string().max(128 * 1024),
    cwd: z.string().max(4096),
    startedAt: executionTime,
    deadline: executionTime.refine((time) => !Number.isNaN(Date.parse(time))),
    running: z.boolean(),
  })
  .transform(({ runId, ...rest }) => ({ executionId: runId, ...rest }));
export type DescribedExecution = z.output<typeof describedExecution>;

/** An agent's report of an execution's end. */
const describedEnd = z.discriminatedUnion('ended', [
  z.object({ ended: z.literal(false) }),
  z.object({
    ended: z.literal(true),
    exitCode: z.int32().nullable(),
    error: z.string().max(64).nullable(),
    durationMs: z.int().min(0),
  }),
]);
export type DescribedEnd = Extract<z.output<typeof describedEnd>, { ended: true }>;

/** A message repeats the path of the request, which may be as long as the kernel allows, so it is cut. */
const refusal = z.object({
  code: z.string().max(64),
  message: z.string().transform((text) => text.slice(0, maxMessageLength).toWellFormed()),
});

/** The agent understood and refused. `code` is one of agent/BOOT.md. */
export class AgentRefusal extends Error {
  override name = 'AgentRefusal';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The agent was unreachable, took too long, or sent an invalid reply. */
export class AgentUnreachable extends Error {
  override name = 'AgentUnreachable';
}

/** Calls the paths of agents that are only for the platform. Every method throws `AgentUnreachable`. */
export class SandboxAgents {
  readonly #platformToken: PlatformSecrets['platformToken'];
  readonly #tunnels: HostTunnels | null;

  /**
   * @param platformToken derives the token for the platform's paths of a sandbox
   * @param tunnels null: every sandbox is reached directly
   */
  constructor(platformToken: PlatformSecrets['platformToken'], tunnels: HostTunnels | null = null) {
    this.#platformToken = platformToken;
    this.#tunnels = tunnels;
  }

  /** Starts a command. @throws {AgentRefusal} `in_progress`, `invalid_cwd`, `too_long`, `invalid`, `cannot_start` */
  async startExecution(place: AgentPlace, { executionId: runId, ...command }: ExecutionRequest): Promise<void> {
    await this.#json(place, 'POST', '/platform/exec', z.object({ runId: z.literal(runId) }), { runId, ...command });
  }

  /** The newest execution, also for a while after its end. */
  async findExecution(place: AgentPlace): Promise<DescribedExecution | null> {
    return (await this.#json(place, 'GET', '/platform/exec', z.object({ run: describedExecution.nullable() }))).run;
  }

  /**
   * The end of an execution. Null: it has not ended within the time.
   * @throws {AgentRefusal} `no_run`; the signal's reason when it aborts
   */
  async readExecutionEnd(
    place: AgentPlace,
    executionId: string,
    { waitMs, signal }: { waitMs: number; signal: AbortSignal },
  ): Promise<DescribedEnd | null> {
    const path = `/platform/exec/end?${new URLSearchParams({ run: executionId, waitMs: String(waitMs) })}`;
    const call = { method: 'GET', path, deadlineMs: waitMs + endReplyMs, maxReplyBytes: maxEndBytes, signal };
    const reply = await usable(callAgent(await this.#endpoint(place), call));
    if (reply.status >= 300) throw refusalIn(reply);
    const end = parsed(describedEnd, reply.json);
    return end.ended ? end : null;
  }

  /** Kills the running command. Returns when the command has ended. @throws {AgentRefusal} `no_run` */
  async cancelExecution(place: AgentPlace): Promise<void> {
    await this.#json(place, 'DELETE', '/platform/exec', z.object({ cancelled: z.literal(true) }));
  }

  /**
   * An execution's events after number `after`, as the agent's server-sent events. Null: there are no further events.
   * The caller destroys the stream.
   * @throws {AgentRefusal} `no_run`
   */
  async readEvents(place: AgentPlace, executionId: string, after: number): Promise<SandboxStream | null> {
    const query = new URLSearchParams({ run: executionId, after: String(after) });
    const call = { method: 'GET', path: `/platform/exec/events?${query}`, deadlineMs: replyMs, maxReplyBytes };
    const reply = await usable(callAgentForStream(await this.#endpoint(place), call));
    if (reply instanceof SandboxStream) return reply;
    if (reply.status !== 204) throw refusalIn(reply);
    return null;
  }

  async #json<T>(place: AgentPlace, method: string, path: string, shape: z.ZodType<T>, body?: object): Promise<T> {
    const call: PlatformCall = { method, path, deadlineMs: replyMs, maxReplyBytes, ...(body && { body }) };
    const reply = await usable(callAgent(await this.#endpoint(place), call));
    if (reply.status >= 300) throw refusalIn(reply);
    return parsed(shape, reply.json);
  }

  /** @throws {AgentUnreachable} when the sandbox's machine is unreachable */
  async #endpoint({ sandboxId, secretKeyNumber, hostId, address, port }: AgentPlace): Promise<AgentEndpoint> {
    const endpoint = { address, port, platformToken: this.#platformToken(sandboxId, secretKeyNumber) };
    if (!this.#tunnels || !hostId) return endpoint;
    try {
      const tunnel = await this.#tunnels.tunnelTo(hostId);
      return tunnel
        ? { ...endpoint, openTunnel: () => openTunnel(tunnel, { sandboxId, port, wantsReply: false }) }
        : endpoint;
    } catch (cause) {
      if (cause instanceof LastHopUnavailable) {
        throw new AgentUnreachable('The host of the sandbox cannot be reached', { cause });
      }
      throw cause;
    }
  }
}

function refusalIn(reply: AgentReply): Error {
  const { code, message } = parsed(refusal, reply.json);
  return new AgentRefusal(code, message);
}

async function usable<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (cause) {
    if (cause instanceof UnusableReply) throw new AgentUnreachable('The agent does not answer', { cause });
    throw cause;
  }
}

function parsed<T>(shape: z.ZodType<T>, json: unknown): T {
  const { success, data, error } = shape.safeParse(json);
  if (success) return data;
  throw new AgentUnreachable('The agent does not send a valid reply', { cause: error });
}

/** The columns that are needed to call a sandbox's agent. */
export interface AgentRow {
  sandboxId: SandboxId;
  secretKeyNumber: number;
  status: SandboxStatus;
  hostId?: string | null | undefined;
  agentAddress?: string | null | undefined;
  agentPort?: number | null | undefined;
}

/**
 * The error codes of the agent's refusals. It is a map because an agent may send any code, such as `constructor` or
 * `__proto__`.
 */
const refusals = new Map<string, ErrorCode>([
  ['in_progress', 'exec_in_progress'],
  ['invalid_cwd', 'invalid_cwd'],
  ['too_long', 'validation_failed'],
  ['cannot_start', 'exec_not_possible'],
  ['no_run', 'exec_not_found'],
]);
const texts: Partial<Record<ErrorCode, string>> = {
  exec_in_progress: 'A command is already running in the sandbox; wait for its end or cancel it',
  exec_not_found: 'No such command is running in the sandbox',
};

/** Errors of routes that call the agent. */
export const ofAgentCalls: ErrorCode[] = ['not_found', 'sandbox_not_running'];

/**
 * Calls the agent of a running sandbox.
 * @throws {AppError} `sandbox_not_running`, the refusal of the agent, `temporarily_unavailable`
 */
export async function askAgent<T>(
  { orm }: { orm: Orm },
  row: AgentRow,
  ask: (place: AgentPlace) => Promise<T>,
): Promise<T> {
  const { sandboxId, secretKeyNumber, status, hostId = null, agentAddress, agentPort } = row;
  if (status !== 'running' || !agentAddress || !agentPort) throw notRunning(status);
  try {
    return await ask({ sandboxId, secretKeyNumber, hostId, address: agentAddress, port: agentPort });
  } catch (error) {
    const code = error instanceof AgentRefusal ? refusals.get(error.code) : undefined;
    if (code) throw new AppError(code, texts[code] ?? `The command cannot be run: ${(error as Error).message}`);
    if (!(error instanceof AgentRefusal || error instanceof AgentUnreachable)) throw error;
    // The agent is also unreachable while its sandbox is being frozen or ended.
    const now = await findSandboxStatus(orm.em, sandboxId);
    if (now && now.status !== 'running') throw notRunning(now.status);
    throw new AppError('temporarily_unavailable', 'The sandbox does not answer now; try again', { cause: error });
  }
}

function notRunning(status: SandboxStatus): AppError {
  return new AppError('sandbox_not_running', `The sandbox is ${status}, not running`);
}
