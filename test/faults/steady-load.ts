import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { SandboxId } from '../../domain/ids.ts';
import type { ApiReply, PlatformClient, SandboxView } from '../../ops/development/client/platform-client.ts';
import { until } from '../support/until.ts';

/** Requests of one part of the run, by their end. */
interface Tally {
  done: number;
  noConnection: number;
  unavailable: number;
  /** The first request of a retry was executed although its reply was lost. */
  doneBefore: number;
  slowestMs: number;
}

/**
 * Clients that use sandboxes repeatedly: each makes one, writes into it, pauses it, resumes it, and writes again. They
 * retry after a lost connection, 503 and their consequences, as the platform's clients do, and after nothing else.
 */
export class SteadyLoad {
  readonly tallies = new Map<string, Tally>();
  /** The number of each reply with 503. */
  readonly refusals = new Map<string, number>();
  /** Replies that no client would retry. */
  readonly wrong: string[] = [];
  readonly sandboxes: { sandboxId: SandboxId; lines: number }[] = [];
  rounds = 0;
  readonly #api: PlatformClient;
  readonly #loops: Promise<void>[];
  /** Ends the current rounds. */
  readonly #abandoned = new AbortController();
  #part = '';
  #stopped = false;

  constructor(api: PlatformClient, clients: number, firstPart: string) {
    this.#api = api;
    this.part = firstPart;
    this.#loops = Array.from({ length: clients }, (_, number) => this.#use(number));
  }

  /** The part of the run to which requests are counted when they end. */
  set part(name: string) {
    this.#part = name;
    this.tallies.set(name, { done: 0, noConnection: 0, unavailable: 0, doneBefore: 0, slowestMs: 0 });
  }

  /**
   * Waits until all clients together have done so many rounds in this part. @throws replies that no client would retry
   */
  async moreRounds(count: number): Promise<void> {
    const wanted = this.rounds + count;
    await until(() => this.rounds >= wanted || this.wrong.length > 0, 180_000);
    if (this.wrong.length > 0) throw new Error(this.wrong.join('\n'));
  }

  /** Ends after the current rounds. Rounds that take longer are wrong, as if the platform were gone. */
  async stop(seconds = 60): Promise<void> {
    this.#stopped = true;
    const late = new Error(`stopped, and not done ${seconds} s later`);
    const timer = setTimeout(() => this.#abandoned.abort(late), seconds * 1000);
    await Promise.all(this.#loops);
    clearTimeout(timer);
  }

  async #use(number: number): Promise<void> {
    try {
      const name = `load-${number}`;
      const { data } = await this.#try('POST', '/v1/sandboxes', { name, template: 'base', timeout: 3600 }, 201);
      const sandbox = { sandboxId: (data as SandboxView).sandbox_id, lines: 0 };
      this.sandboxes.push(sandbox);
      const of = `/v1/sandboxes/${sandbox.sandboxId}`;
      // This process lives only in memory.
      await this.#run(of, 'nohup sleep infinity > /dev/null 2>&1 & echo $! > /root/pid');
      while (!this.#stopped) {
        // A command with a broken connection may have run, and is sent again.
        await this.#run(of, `grep -qsx ${sandbox.lines} /root/lines || echo ${sandbox.lines} >> /root/lines`);
        sandbox.lines += 1;
        await this.#try('POST', `${of}/pause`, undefined, 200, 'paused');
        await this.#try('POST', `${of}/resume`, undefined, 200, 'running');
        this.rounds += 1;
      }
    } catch (error) {
      this.wrong.push(String(error));
    }
  }

  async #run(of: string, command: string): Promise<void> {
    const { data } = await this.#try('POST', `${of}/exec`, { command, wait: true }, 200);
    if (data.exit_code !== 0) throw new Error(`${command}: ${JSON.stringify(data)}`);
  }

  /** @param becomes the status that shows that a request without a reply was executed */
  async #try(method: string, target: string, body: unknown, wanted: number, becomes?: string) {
    const headers = { 'Idempotency-Key': randomUUID() };
    for (let isRetry = false; ; isRetry = true) {
      const begun = performance.now();
      const reply = await this.#ask(method, target, body, headers);
      const tally = this.tallies.get(this.#part)!;
      if (reply === null) tally.noConnection += 1;
      else if (reply.status === 503) {
        tally.unavailable += 1;
        const text = `${this.#part}: ${method} …/${target.split('/').at(-1)}: ${reply.body.code} ${reply.body.error}`;
        this.refusals.set(text, (this.refusals.get(text) ?? 0) + 1);
      } else if (reply.status === wanted || (reply.status === 202 && becomes)) {
        tally.done += 1;
        tally.slowestMs = Math.max(tally.slowestMs, performance.now() - begun);
        return { data: (reply.body.data ?? reply.body) as Record<string, unknown> };
      } else if (isRetry && reply.status === 409 && becomes && (await this.#readStatus(target)) === becomes) {
        tally.doneBefore += 1;
        return { data: {} };
      } else if (!(isRetry && reply.status === 409)) {
        throw new Error(`${method} ${target} in "${this.#part}": ${reply.status} ${JSON.stringify(reply.body)}`);
      }
      await delay(250);
    }
  }

  async #readStatus(target: string): Promise<string | null> {
    const reply = await this.#ask<SandboxView>('GET', target.replace(/\/\w+$/, ''));
    return reply?.body.data?.status ?? null;
  }

  /** @returns null when the connection is lost. @throws when the round is abandoned */
  async #ask<Data>(...request: Parameters<PlatformClient['request']>): Promise<ApiReply<Data> | null> {
    const { signal } = this.#abandoned;
    signal.throwIfAborted();
    const abandoned = Promise.withResolvers<never>();
    const abort = () => abandoned.reject(new Error(`${request[0]} ${request[1]}: ${signal.reason.message}`));
    signal.addEventListener('abort', abort, { once: true });
    try {
      const reply = this.#api.request<Data>(...request).catch(connectionError);
      return await Promise.race([reply, abandoned.promise]);
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }
}

/** The tallies, as a table of Markdown. */
export function formatTable(load: SteadyLoad): string {
  const header = ['part', 'done', 'no connection', '503', 'done, reply lost', 'slowest ms'];
  const rows = [...load.tallies].map(([part, { done, noConnection, unavailable, doneBefore, slowestMs }]) => {
    return [part, done, noConnection, unavailable, doneBefore, Math.round(slowestMs)];
  });
  return [header, header.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

/** What `fetch` throws when there is no connection, or when it ends before the reply. */
function connectionError(error: unknown): ApiReply<never> | null {
  // Not `instanceof`, because Jest has its own TypeError.
  if ((error as Error).name === 'TypeError') return null;
  throw error;
}
