import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { UnlimitedApi } from './unlimited-api.ts';

const probe = path.join(import.meta.dirname, 'memory-probe.mjs');

/** The API's process, and callers of many kinds. */
export class LoadedApi {
  readonly #api: UnlimitedApi;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
  #sent = 0;

  private constructor(api: UnlimitedApi) {
    this.#api = api;
  }

  static async start(): Promise<LoadedApi> {
    return new LoadedApi(await UnlimitedApi.start('hobby', probe, ['--expose-gc']));
  }

  /** Memory in use after garbage collection, and the resident memory of the process, in bytes. */
  memory(): Promise<{ live: number; rss: number }> {
    return this.#api.ask();
  }

  get port(): number {
    return Number(new URL(this.#api.url).port);
  }

  /** The maximum resident memory since the start of the process. */
  maxResidentMib(): number {
    const status = fs.readFileSync(`/proc/${this.#api.pid}/status`, 'utf8');
    return Math.round(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)![1]) / 1024);
  }

  /**
   * Sends an ordinary authenticated request on a new connection and returns the status.
   * @param localAddress of loopback: the client address that the API sees
   */
  askFrom(localAddress: string, timeoutMs: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const request = http.get(
        `${this.#api.url}/v1/projects`,
        { localAddress, agent: false, headers: { 'x-api-key': this.#api.key }, timeout: timeoutMs },
        (response) => {
          response.resume();
          response.once('end', () => resolve(response.statusCode!));
        },
      );
      request.once('timeout', () => request.destroy(new Error(`no answer within ${timeoutMs} ms`)));
      request.once('error', reject);
    });
  }

  /**
   * Sends requests: half of them are lists, the others are hostile in various ways. @returns the number of replies by
   * status
   */
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
    await this.#api.stop();
  }

  #send(index: number): Promise<number> {
    const { key } = this.#api;
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

  /** The status, or 0 if the connection was cut. */
  #request(method: string, where: string, { key = '', body = '', type = 'application/json' }): Promise<number> {
    return new Promise((resolve) => {
      const headers = { 'x-api-key': key, ...(body && { 'content-type': type, 'content-length': body.length }) };
      const request = http.request(this.#api.url + where, { method, headers, agent: this.#agent }, (reply) => {
        reply.resume().once('close', () => resolve(reply.statusCode!));
      });
      request.once('error', () => resolve(0));
      request.end(body);
    });
  }
}
