import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { DescService } from '@bufbuild/protobuf';
import { type Client, createClient, type Interceptor, type Transport } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { freePort } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';

export const token = 'tok-0123456789abcdef';
export const platformToken = 'platform-0123456789';

export interface AgentOptions {
  /** The document on the agent's standard input. Null: none, so it runs from its environment. */
  boot?: object | null;
  env?: Record<string, string>;
  /** Checks the agent while it waits for the document. */
  beforeBoot?: (pid: number, address: string) => Promise<void>;
  /** Words before node, for another root or another user. */
  through?: string[];
  node?: string;
  folder?: string;
}

/** The JSON that a plain client reads. */
export type Json = ReturnType<typeof JSON.parse>;

export type Protocol = 'connect+json' | 'connect+proto' | 'grpc-web' | 'grpc';

/** The real bundled agent in its own process. */
export class TestAgent {
  readonly port: number;
  readonly address: string;
  /** A folder for the test's files, removed at the end. */
  readonly folder: string;
  readonly process: ChildProcess;
  /** Its standard error so far. */
  log = '';

  private constructor(port: number, folder: string, child: ChildProcess) {
    this.port = port;
    this.address = `http://127.0.0.1:${port}`;
    this.folder = folder;
    this.process = child;
    child.stderr!.on('data', (chunk) => {
      this.log += chunk;
    });
  }

  /** Starts an agent that serves a sandbox, unless `boot` differs. Resolves when `/health` answers. */
  static async start(options: AgentOptions = {}): Promise<TestAgent> {
    const port = await freePort();
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'agent-test-'));
    const agentPath = path.join(
      options.folder ?? path.resolve(import.meta.dirname, '../../../agent/dist'),
      'agent.cjs',
    );
    const words = [...(options.through ?? []), options.node ?? process.execPath, agentPath];
    const child = spawn(words[0]!, words.slice(1), {
      stdio: ['pipe', 'inherit', 'pipe'],
      env: {
        PATH: process.env.PATH!,
        AGENT_PORT: String(port),
        AGENT_LISTEN: '127.0.0.1',
        AGENT_COMMAND_TAIL: path.join(folder, 'run', 'command.tail'),
        // With this, every test of the agent fails at a late use of a buffer.
        AGENT_POISON_RELEASED: '1',
        ...options.env,
      },
    });
    const boot = options.boot === undefined ? { platformToken, init: sandbox() } : options.boot;
    const agent = new TestAgent(port, folder, child);
    await options.beforeBoot?.(child.pid!, agent.address);
    child.stdin!.end(boot === null ? '' : JSON.stringify(boot));
    const isReady = async () => (await fetch(`${agent.address}/health`).catch(() => undefined))?.ok ?? false;
    await until(
      async () => {
        if (child.exitCode !== null) throw new Error(`the agent ended with ${child.exitCode}: ${agent.log}`);
        return isReady();
      },
      60_000,
      5,
    );
    return agent;
  }

  async stop(): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill('SIGKILL');
      await once(this.process, 'exit');
    }
    fs.rmSync(this.folder, { recursive: true, force: true });
  }

  get isAlive(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null;
  }

  path(...names: string[]): string {
    return path.join(this.folder, ...names);
  }

  /** A client of the Connect library. `header` is added to the tokens. Null removes one of them. */
  client<S extends DescService>(
    service: S,
    protocol: Protocol = 'connect+json',
    header: HeaderChanges = {},
  ): Client<S> {
    return createClient(service, this.transport(protocol, header));
  }

  transport(protocol: Protocol, header: HeaderChanges = {}): Transport {
    const interceptors: Interceptor[] = [
      (next) => (request) => {
        for (const [name, value] of Object.entries(headers(header))) request.header.set(name, value);
        return next(request);
      },
    ];
    const shared = { baseUrl: this.address, interceptors };
    if (protocol === 'grpc') return createGrpcTransport(shared);
    if (protocol === 'grpc-web') return createGrpcWebTransport({ ...shared, httpVersion: '1.1' });
    return createConnectTransport({ ...shared, httpVersion: '1.1', useBinaryFormat: protocol === 'connect+proto' });
  }

  /** Sends a unary call as a plain HTTP client does. */
  async post(procedure: string, body: unknown, header: HeaderChanges = {}): Promise<{ status: number; json: Json }> {
    const reply = await fetch(`${this.address}/sandboxagent.${procedure}`, {
      method: 'POST',
      headers: headers({ 'content-type': 'application/json', ...header }),
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    return { status: reply.status, json: await reply.json() };
  }

  /** Private memory in MiB. */
  privateMib(): number {
    const rollup = fs.readFileSync(`/proc/${this.process.pid}/smaps_rollup`, 'latin1');
    const kib = [...rollup.matchAll(/^Private_(?:Clean|Dirty):\s+(\d+)/gm)].map(([, number]) => Number(number));
    return kib.reduce((sum, number) => sum + number, 0) / 1024;
  }
}

export type HeaderChanges = Record<string, string | null>;

/** The headers with the sandbox's tokens, and the given changes. */
export function headers(changes: HeaderChanges = {}): Record<string, string> {
  const all: HeaderChanges = { authorization: 'Bearer root', 'x-access-token': token, ...changes };
  return Object.fromEntries(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== null));
}

/** The `init` of a boot document. */
export function sandbox(changes: object = {}): object {
  return { sandboxId: 'sbx-test', accessToken: token, env: {}, command: null, ...changes };
}

const timeoutMs = 90_000;

/** Resolves with the first truthy value. */
export async function eventually<T>(attempt: () => T | Promise<T>): Promise<NonNullable<T>> {
  for (const giveUp = Date.now() + timeoutMs; Date.now() < giveUp; ) {
    const value = await attempt();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`waited in vain for: ${attempt}`);
}
