import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AgentEnvironment } from '../boot/environment.ts';
import type { SandboxState } from '../boot/sandbox-state.ts';
import { resolvePath, statOf } from '../filesystem/path.ts';
import { readJson, replyJson } from '../http/json-exchange.ts';
import { drained } from '../http/response-flow.ts';
import { ConnectError } from '../rpc/connect-error.ts';
import { isSystemError, toConnectError } from '../rpc/errors.ts';
import { Run, type RunEnd } from './run.ts';
import { RunEnds } from './run-ends.ts';
import { parseRunRequest, type RunRequest } from './run-request.ts';
import { eventFrame, readyFrame } from './stream-frames.ts';

/** How long an ended run can be read, unless another run begins. */
const endedKeptMs = 300_000;
/** How long readers of an ended run may continue when another run begins. */
const lastReadersMs = 10_000;

/** How long a request for the end of a run may wait for it. */
const longestWaitMs = 30_000;

/** A refusal with a code that the platform maps to its own. */
class RunRefused extends Error {
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
  #claim: Promise<Run> | undefined;
  #claimedBy: string | undefined;
  #run: Run | undefined;
  #forgetting: NodeJS.Timeout | undefined;
  readonly #ends = new RunEnds();

  constructor(state: SandboxState, environment: AgentEnvironment) {
    this.#state = state;
    this.#environment = environment;
  }

  async serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url!, 'http://agent');
    try {
      if (url.pathname === '/platform/exec/events' && req.method === 'GET') await this.#serveEvents(url, req, res);
      else if (url.pathname === '/platform/exec/end' && req.method === 'GET') await this.#serveEnd(url, req, res);
      else if (url.pathname !== '/platform/exec') throw new RunRefused(404, 'not_found', 'not found');
      else if (req.method === 'POST') await this.#serveStart(req, res);
      else if (req.method === 'GET') replyJson(req, res, 200, { run: this.#describe() });
      else if (req.method === 'DELETE') await this.#serveCancel(req, res);
      else throw new RunRefused(404, 'not_found', 'not found');
    } catch (error) {
      if (error instanceof RunRefused) {
        replyJson(req, res, error.status, { code: error.code, message: error.message });
      } else if (error instanceof TypeError || error instanceof SyntaxError) {
        replyJson(req, res, 400, { code: 'invalid', message: error.message });
      } else throw error;
    }
  }

  async #serveStart(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const request = parseRunRequest(await readJson(req));
    if (!this.#state.init) throw new RunRefused(409, 'not_ready', 'the sandbox is not ready yet');
    // The same run id again: the first reply was lost, and the platform repeats the request.
    const isRepeated = [this.#claimedBy, this.#run?.request.runId].includes(request.runId);
    if (!isRepeated) {
      if (this.#claim) throw new RunRefused(409, 'in_progress', 'another command is running');
      this.#claimedBy = request.runId;
      this.#claim = this.#start(request);
      this.#claim.catch(() => this.#release());
    }
    await this.#claim;
    replyJson(req, res, 201, { runId: request.runId });
  }

  async #start(request: RunRequest): Promise<Run> {
    const cwd = await workingDirectory(request.cwd, this.#environment.home());
    try {
      const run = await Run.start(request, cwd, this.#environment, (end) => this.#onEnd(run, end));
      this.#forget(lastReadersMs);
      this.#run = run;
      return run;
    } catch (error) {
      if (!isSystemError(error)) throw error;
      if (error.code === 'E2BIG') throw new RunRefused(400, 'too_long', 'the command and its environment are too long');
      const reason =
        error.code === 'ENOENT' ? 'the sandbox has no bash and no sh' : toConnectError(error, 'bash').rawMessage;
      throw new RunRefused(422, 'cannot_start', reason);
    }
  }

  async #serveCancel(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const run = await this.#claim;
    if (!run || run.hasEnded) throw new RunRefused(404, 'no_run', 'no command is running');
    await run.cancel();
    replyJson(req, res, 200, { cancelled: true });
  }

  async #serveEvents(url: URL, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const run = this.#run;
    const after = Number(url.searchParams.get('after') ?? 0);
    if (!Number.isSafeInteger(after) || after < 0) throw new TypeError('after must be a number of an event');
    if (!run || run.request.runId !== url.searchParams.get('run')) {
      throw new RunRefused(404, 'no_run', 'there is no such run');
    }
    const { lastSequence } = run.events;
    if (lastSequence !== undefined && after >= lastSequence) {
      res.writeHead(204).end();
      return;
    }
    req.resume();
    const left = new AbortController();
    res.once('close', () => left.abort());
    res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    res.write(readyFrame);
    for await (const event of run.events.read(after, left.signal)) {
      res.write(eventFrame(run.request.runId, event));
      await drained(res);
    }
    res.end();
    const giveUp = setTimeout(() => res.destroy(), endedKeptMs).unref();
    res.once('close', () => clearTimeout(giveUp));
  }

  /** Replies with the end of a run. If the run has not ended, waits for the end as long as the request allows. */
  async #serveEnd(url: URL, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const runId = url.searchParams.get('run') ?? '';
    const waitMs = Number(url.searchParams.get('waitMs') ?? 0);
    if (!(waitMs >= 0 && waitMs <= longestWaitMs)) throw new TypeError(`waitMs must be 0 to ${longestWaitMs}`);
    const left = new AbortController();
    res.once('close', () => left.abort());
    const untilMs = performance.now() + waitMs;
    for (;;) {
      const end = this.#ends.find(runId);
      if (end) return replyJson(req, res, 200, { ended: true, ...end });
      if (this.#claimedBy !== runId) throw new RunRefused(404, 'no_run', 'there is no such run');
      const restMs = untilMs - performance.now();
      if (restMs <= 0 || left.signal.aborted) return replyJson(req, res, 200, { ended: false, runId });
      await this.#ends.next(restMs, left.signal);
    }
  }

  #describe(): object | null {
    if (!this.#run) return null;
    const { runId, owner, command, cwd, startedAt, deadline } = this.#run.request;
    return { runId, owner, command, cwd, startedAt, deadline, running: !this.#run.hasEnded };
  }

  #onEnd(run: Run, end: RunEnd): void {
    this.#ends.add(end);
    if (this.#claimedBy === run.request.runId) this.#release();
    clearTimeout(this.#forgetting);
    this.#forgetting = setTimeout(() => this.#forget(0), endedKeptMs).unref();
  }

  #release(): void {
    this.#claim = undefined;
    this.#claimedBy = undefined;
  }

  /** Drops the ended run. Its current readers may continue for `readersMs`. */
  #forget(readersMs: number): void {
    clearTimeout(this.#forgetting);
    const events = this.#run?.events;
    this.#run = undefined;
    if (events?.hasReaders) setTimeout(() => events.close(), readersMs).unref();
    else events?.close();
  }
}

/** @throws {RunRefused} */
async function workingDirectory(given: string, home: string): Promise<string> {
  try {
    const resolved = given.startsWith('~') ? resolvePath(given, home, 'cwd') : resolvePath(given, '/', 'cwd');
    if ((await statOf(resolved)).isDirectory()) return resolved;
    throw new RunRefused(400, 'invalid_cwd', `${resolved}: not a directory`);
  } catch (error) {
    if (error instanceof ConnectError || isSystemError(error)) {
      throw new RunRefused(400, 'invalid_cwd', toConnectError(error, given).rawMessage);
    }
    throw error;
  }
}
