import http, { type IncomingMessage } from 'node:http';
import { z } from 'zod';

/** How long an agent may take for the head of a reply, and for the whole of one that is not a stream. */
const replyMs = 10_000;
const maxReplyBytes = 1024 * 1024;
/** The kernel asks after a silent connection, so that one whose sandbox has vanished is found out. */
const probeAfterMs = 10_000;

/** Where the agent of a running sandbox listens, inside the hosts' network. */
export interface AgentPlace {
  sandboxId: string;
  address: string;
  port: number;
}

/** What an agent is asked to run (agent/BOOT.md). */
export interface RunRequest {
  runId: string;
  command: string;
  cwd: string;
  env: Record<string, string>;
  owner: string;
  startedAt: string;
  deadline: string;
  timeoutMs: number;
}

/** What an agent says of its newest run. Whoever has root inside a sandbox can forge it, for that sandbox. */
const describedRun = z.object({
  runId: z.string().regex(/^\w{1,64}$/),
  owner: z.string(),
  command: z.string(),
  cwd: z.string(),
  startedAt: z.string(),
  deadline: z.string(),
  running: z.boolean(),
});
export type DescribedRun = z.output<typeof describedRun>;

const refusal = z.object({ code: z.string(), message: z.string().max(4096) });

/** The agent understood and refused; `code` is one of agent/BOOT.md. */
export class AgentRefusal extends Error {
  override name = 'AgentRefusal';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The agent could not be reached, took too long, or answered what no agent answers. */
export class AgentUnreachable extends Error {
  override name = 'AgentUnreachable';
}

/** Calls the platform's own paths of agents. Every method throws `AgentUnreachable`. */
export class SandboxAgents {
  readonly #platformToken: (sandboxId: string) => string;

  /** @param platformToken derives the token that opens a sandbox's platform paths */
  constructor(platformToken: (sandboxId: string) => string) {
    this.#platformToken = platformToken;
  }

  /** Starts a command. @throws {AgentRefusal} `in_progress`, `invalid_cwd`, `too_long`, `invalid`, `cannot_start` */
  async startRun(place: AgentPlace, run: RunRequest): Promise<void> {
    await this.#json(place, 'POST', '/platform/exec', z.object({ runId: z.literal(run.runId) }), run);
  }

  /** The newest run, also for a while after its end. */
  async findRun(place: AgentPlace): Promise<DescribedRun | null> {
    return (await this.#json(place, 'GET', '/platform/exec', z.object({ run: describedRun.nullable() }))).run;
  }

  /** Kills what runs; answers once it has ended. @throws {AgentRefusal} `no_run` */
  async cancelRun(place: AgentPlace): Promise<void> {
    await this.#json(place, 'DELETE', '/platform/exec', z.object({ cancelled: z.literal(true) }));
  }

  /**
   * A run's events behind the one numbered `after`, as the agent's server-sent events. Null: there are none any more.
   * Whoever takes the stream destroys it.
   * @throws {AgentRefusal} `no_run`
   */
  async readRun(place: AgentPlace, runId: string, after: number): Promise<IncomingMessage | null> {
    const query = new URLSearchParams({ run: runId, after: String(after) });
    const reply = await this.#request(place, 'GET', `/platform/exec/events?${query}`);
    if (reply.statusCode === 200) return reply;
    if (reply.statusCode !== 204) throw await this.#refusalIn(reply);
    reply.resume();
    return null;
  }

  async #json<T>(place: AgentPlace, method: string, path: string, shape: z.ZodType<T>, body?: object): Promise<T> {
    const reply = await this.#request(place, method, path, body);
    if (reply.statusCode! >= 300) throw await this.#refusalIn(reply);
    return parsed(shape, await textOf(reply));
  }

  async #refusalIn(reply: IncomingMessage): Promise<Error> {
    const { code, message } = parsed(refusal, await textOf(reply));
    return new AgentRefusal(code, message);
  }

  #request(place: AgentPlace, method: string, path: string, body?: object): Promise<IncomingMessage> {
    const content = body && Buffer.from(JSON.stringify(body));
    return new Promise((resolve, reject) => {
      const request = http.request({
        host: place.address,
        port: place.port,
        method,
        path,
        // A connection kept over a pause or a resume may lead nowhere.
        agent: false,
        headers: {
          'x-platform-token': this.#platformToken(place.sandboxId),
          ...(content && { 'content-type': 'application/json', 'content-length': content.length }),
        },
      });
      const fail = (cause: unknown) => reject(new AgentUnreachable('The agent does not answer', { cause }));
      const limit = setTimeout(() => request.destroy(new Error(`no reply within ${replyMs} ms`)), replyMs);
      request.once('close', () => clearTimeout(limit));
      request.once('error', fail);
      request.once('response', (reply) => {
        clearTimeout(limit);
        reply.socket.setKeepAlive(true, probeAfterMs);
        resolve(reply);
      });
      request.end(content);
    });
  }
}

async function textOf(reply: IncomingMessage): Promise<string> {
  const limit = setTimeout(() => reply.destroy(new Error(`no reply within ${replyMs} ms`)), replyMs);
  try {
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of reply) {
      length += chunk.length;
      if (length > maxReplyBytes) throw new Error('the reply is too long');
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString('utf8');
  } catch (cause) {
    throw new AgentUnreachable('The agent does not answer', { cause });
  } finally {
    clearTimeout(limit);
  }
}

function parsed<T>(shape: z.ZodType<T>, text: string): T {
  try {
    return shape.parse(JSON.parse(text));
  } catch (cause) {
    throw new AgentUnreachable('The agent does not answer as agents do', { cause });
  }
}
