import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { heapFlags } from '../../config/heap-limits.ts';
import { bootstrap } from '../../db/bootstrap.ts';
import { createOrm } from '../../db/orm.ts';
import { testDatabase } from './stack.ts';

const root = path.resolve(import.meta.dirname, '../..');

/** The API's process as production starts it, without limits of requests, and callers of many kinds. */
export class LoadedApi {
  readonly #child: ChildProcess;
  readonly #url: string;
  readonly #key: string;
  readonly #drop: () => Promise<void>;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  #sent = 0;

  private constructor(child: ChildProcess, url: string, key: string, drop: () => Promise<void>) {
    this.#child = child;
    this.#url = url;
    this.#key = key;
    this.#drop = drop;
  }

  static async start(): Promise<LoadedApi> {
    const database = await testDatabase();
    const orm = await createOrm(database.url, 1);
    const made = await bootstrap(orm, { email: 'root@example.com', planName: 'hobby', baseImage: 'builtin:base' });
    await orm.close();
    const probe = path.join(import.meta.dirname, 'memory-probe.mjs');
    const child = fork(path.join(root, 'api/server.ts'), {
      execArgv: [...heapFlags('api/server.ts', {}), '--expose-gc', `--import=${probe}`],
      env: {
        PATH: process.env.PATH,
        PLATFORM_SECRET_KEY: Buffer.alloc(32, 3).toString('base64'),
        DATABASE_URL: database.url,
        PLATFORM_API_PORT: '0',
        PLATFORM_RATE_LIMIT_PER_KEY: '0',
        PLATFORM_RATE_LIMIT_PER_ADDRESS: '0',
      },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    const lines = createInterface({ input: child.stdout! });
    const url = await new Promise<string>((resolve, reject) => {
      child.once('exit', () => reject(new Error('the API ended before it was ready')));
      lines.on('line', (line) => {
        if (line.includes('"msg":"ready"')) resolve(JSON.parse(line).address);
      });
    });
    return new LoadedApi(child, url, made!.apiKey, () => database.drop());
  }

  /** Bytes that are in use once garbage is collected, and that the process has of the machine. */
  async memory(): Promise<{ live: number; rss: number }> {
    this.#child.send('memory');
    const [memory] = await once(this.#child, 'message');
    return memory;
  }

  /** Sends requests, half of them lists, the others hostile in one way or another. @returns how many had which status */
  async load(count: number): Promise<Map<number, number>> {
    const statuses = new Map<number, number>();
    const until = this.#sent + count;
    const caller = async () => {
      while (this.#sent < until) {
        const status = await this.#send(this.#sent++);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: 16 }, caller));
    return statuses;
  }

  async stop(): Promise<void> {
    this.#agent.destroy();
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await ended;
    await this.#drop();
  }

  #send(index: number): Promise<number> {
    const key = this.#key;
    const deep = '['.repeat(5000);
    const wide = `{"env_vars":{${Array.from({ length: 250 }, (_, i) => `"${index}-${i}":1`)}}}`;
    const large = JSON.stringify({ template: 'none', ignored: 'x'.repeat(900_000) });
    const text = `{"${'k'.repeat(300_000)}":["\\u0000"]}`;
    switch (index % 16) {
      case 1:
        return this.#request('POST', '/v1/sandboxes', { key, body: deep });
      case 3:
        return this.#request('POST', '/v1/sandboxes', { key, body: wide });
      case 5:
        return this.#request('POST', '/v1/sandboxes', { key, body: large });
      case 7:
        return this.#request('POST', '/codec/guess/decode', { body: text });
      case 9:
        return this.#request('GET', `/v1/nothing/${index}`, { key });
      case 11:
        return this.#request('GET', '/v1/users/me', { key: `spk_${index}` });
      case 13:
        return this.#request('GET', `/v1/sandboxes?search=${index}&metadata=k${index}=1`, { key });
      case 15:
        return this.#request('POST', '/v1/projects', { key, body: '{}', type: `application/x-${index}` });
      default:
        return this.#request('GET', '/v1/sandboxes?limit=100', { key });
    }
  }

  /** The status, or 0 where the connection was cut. */
  #request(method: string, where: string, { key = '', body = '', type = 'application/json' }): Promise<number> {
    return new Promise((resolve) => {
      const headers = { 'x-api-key': key, ...(body && { 'content-type': type, 'content-length': body.length }) };
      const request = http.request(this.#url + where, { method, headers, agent: this.#agent }, (reply) => {
        reply.resume().once('close', () => resolve(reply.statusCode!));
      });
      request.once('error', () => resolve(0));
      request.end(body);
    });
  }
}
