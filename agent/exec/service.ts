import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AgentEnvironment } from '../boot/environment.ts';
import type { SandboxState } from '../boot/sandbox-state.ts';
import { resolvePath, statPath } from '../filesystem/path.ts';
import { readJson, replyJson } from '../http/json-exchange.ts';
import { drained } from '../http/response-flow.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import { isSystemError, toConnectError } from '../rpc/errors.ts';
import { Execution, type ExecutionEnd } from './execution.ts';
import { ExecutionEnds } from './execution-ends.ts';
import { type ExecutionRequest, parseExecutionRequest } from './execution-request.ts';
import { eventFrame, readyFrame } from './stream-frames.ts';

/** How long an ended execution can be read, unless another execution begins. */
const endedKeptMs = 300_000;
/** How long readers of an ended execution may continue when another execution begins. */
const lastReadersMs = 10_000;

/** How long a request for the end of an execution may wait for it. */
const longestWaitMs = 30_000;

/** A refusal with a code that the platform maps to its own. */
class ExecutionRefused extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * Serves `/platform/exec…` (BOOT.md): one command at a time, and its events. The agent enforces that limit, so that it
 * applies to all replicas of the API together. These paths need the platform's token.
 */
export class ExecService {
  readonly #state: SandboxState;
  readonly #environment: AgentEnvironment;
  #claim: Promise<Execution> | undefined;
  #claimedBy: string | undefined;
  #execution: Execution | undefined;
  #forgetting: NodeJS.Timeout | undefined;
  readonly #ends = new ExecutionEnds();

  constructor(state: SandboxState, environment: AgentEnvironment) {
    this.#state = state;
    this.#environment = environment;
  }

  async serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url!, 'http://agent');
    try {
      if (url.pathname === '/platform/exec/events' && req.method === 'GET') await this.#serveEvents(url, req, res);
      else if (url.pathname === '/platform/exec/end' && req.method === 'GET') await this.#serveEnd(url, req, res);
      else if (url.pathname !== '/platform/exec') throw new ExecutionRefused(404, 'not_found', 'not found');
      else if (req.method === 'POST') await this.#serveStart(req, res);
      else if (req.method === 'GET') replyJson(req, res, 200, { run: this.#describe() });
      else if (req.method === 'DELETE') await this.#serveCancel(req, res);
      else throw new ExecutionRefused(404, 'not_found', 'not found');
    } catch (error) {
      if (error instanceof ExecutionRefused) {
        replyJson(req, res, error.status, { code: error.code, message: error.message });
      } else if (error instanceof TypeError || error instanceof SyntaxError) {
        replyJson(req, res, 400, { code: 'invalid', message: error.message });
      } else throw error;
    }
  }

  async #serveStart(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const request = parseExecutionRequest(await readJson(req));
    if (!this.#state.init) throw new ExecutionRefused(409, 'not_ready', 'the sandbox is not ready yet');
    // The same execution id again: the first reply was lost, and the platform repeats the request.
    const isRepeated = [this.#claimedBy, this.#execution?.request.executionId].includes(request.executionId);
    if (!isRepeated) {
      if (this.#claim) throw new ExecutionRefused(409, 'in_progress', 'another command is running');
      this.#claimedBy = request.executionId;
      this.#claim = this.#start(request);
      this.#claim.catch(() => this.#release());
    }
    await this.#claim;
    replyJson(req, res, 201, { runId: request.executionId });
  }

  async #start(request: ExecutionRequest): Promise<Execution> {
    const cwd = await workingDirectory(request.cwd, this.#environment.home());
    try {
      const execution = await Execution.start(request, cwd, this.#environment, (end) => this.#onEnd(execution, end));
      this.#forget(lastReadersMs);
      this.#execution = execution;
      return execution;
    } catch (error) {
      if (!isSystemError(error)) throw error;
      if (error.code === 'E2BIG')
        throw new ExecutionRefused(400, 'too_long', 'the command and its environment are too long');
      const reason =
        error.code === 'ENOENT' ? 'the sandbox has no bash and no sh' : toConnectError(error, 'bash').rawMessage;
      throw new ExecutionRefused(422, 'cannot_start', reason);
    }
  }

  async #serveCancel(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const execution = await this.#claim;
    if (!execution || execution.hasEnded) throw new ExecutionRefused(404, 'no_run', 'no command is running');
    await execution.cancel();
    replyJson(req, res, 200, { cancelled: true });
  }

  async #serveEvents(url: URL, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const execution = this.#execution;
    const after = Number(url.searchParams.get('after') ?? 0);
    if (!Number.isSafeInteger(after) || after < 0) throw new TypeError('after must be a number of an event');
    if (!execution || execution.request.executionId !== url.searchParams.get('run')) {
      throw new ExecutionRefused(404, 'no_run', 'there is no such run');
    }
    const { lastSequence } = execution.events;
    if (lastSequence !== undefined && after >= lastSequence) {
      res.writeHead(204).end();
      return;
    }
    req.resume();
    const left = new AbortController();
    res.once('close', () => left.abort());
    res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    res.write(readyFrame);
    for await (const event of execution.events.read(after, left.signal)) {
      res.write(eventFrame(execution.request.executionId, event));
      await drained(res);
    }
    res.end();
    const giveUp = setTimeout(() => res.destroy(), endedKeptMs).unref();
    res.once('close', () => clearTimeout(giveUp));
  }

  /**
   * Replies with the end of an execution. If the execution has not ended, waits for the end as long as the request
   * allows.
   */
  async #serveEnd(url: URL, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const executionId = url.searchParams.get('run') ?? '';
    const waitMs = Number(url.searchParams.get('waitMs') ?? 0);
    if (!(waitMs >= 0 && waitMs <= longestWaitMs)) throw new TypeError(`waitMs must be 0 to ${longestWaitMs}`);
    const left = new AbortController();
    res.once('close', () => left.abort());
    const untilMs = performance.now() + waitMs;
    for (;;) {
      const end = this.#ends.find(executionId);
      if (end) {
        const { executionId: _, ...rest } = end;
        return replyJson(req, res, 200, { ended: true, runId: executionId, ...rest });
      }
      if (this.#claimedBy !== executionId) throw new ExecutionRefused(404, 'no_run', 'there is no such run');
      const restMs = untilMs - performance.now();
      if (restMs <= 0 || left.signal.aborted) return replyJson(req, res, 200, { ended: false, runId: executionId });
      await this.#ends.next(restMs, left.signal);
    }
  }

  #describe(): object | null {
    if (!this.#execution) return null;
    const { executionId, owner, command, cwd, startedAt, deadline } = this.#execution.request;
    return { runId: executionId, owner, command, cwd, startedAt, deadline, running: !this.#execution.hasEnded };
  }

  #onEnd(execution: Execution, end: ExecutionEnd): void {
    this.#ends.add(end);
    if (this.#claimedBy === execution.request.executionId) this.#release();
    clearTimeout(this.#forgetting);
    this.#forgetting = setTimeout(() => this.#forget(0), endedKeptMs).unref();
  }

  #release(): void {
    this.#claim = undefined;
    this.#claimedBy = undefined;
  }

  /** Drops the ended execution. Its current readers may continue for `readersMs`. */
  #forget(readersMs: number): void {
    clearTimeout(this.#forgetting);
    const events = this.#execution?.events;
    this.#execution = undefined;
    if (events?.hasReaders) setTimeout(() => events.close(), readersMs).unref();
    else events?.close();
  }
}

/** @throws {ExecutionRefused} */
async function workingDirectory(given: string, home: string): Promise<string> {
  try {
    const resolved = given.startsWith('~') ? resolvePath(given, home, 'cwd') : resolvePath(given, '/', 'cwd');
    if ((await statPath(resolved)).isDirectory()) return resolved;
    throw new ExecutionRefused(400, 'invalid_cwd', `${resolved}: not a directory`);
  } catch (error) {
    if (error instanceof ConnectError || isSystemError(error)) {
      throw new ExecutionRefused(400, 'invalid_cwd', toConnectError(error, given).rawMessage);
    }
    throw error;
  }
}
