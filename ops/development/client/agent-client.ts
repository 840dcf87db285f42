import http from 'node:http';
import type { LookupFunction } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { DescService } from '@bufbuild/protobuf';
import { type Client, createClient, type Interceptor, type Transport } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { Filesystem, Process } from '../../../agent/proto/gen/sandboxagent_pb.js';

export interface Finished {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** Resolves all names of sandboxes to the gateway, so that resolvers need not know the base domain. */
export function gatewayLookup(address = '127.0.0.1'): LookupFunction {
  return (_name, options, found) => {
    if (options.all) (found as unknown as (e: null, all: object[]) => void)(null, [{ address, family: 4 }]);
    else found(null, address, 4);
  };
}

/** The agent of one sandbox. It is reached in the same way as by users: through the gateway, by its domain. */
export class AgentClient {
  readonly #base: URL;
  readonly #headers: Record<string, string>;
  readonly #agent = new http.Agent({ keepAlive: true });
  readonly #lookup: LookupFunction;
  readonly #transport: Transport;
  readonly #process: Client<typeof Process>;
  readonly filesystem: Client<typeof Filesystem>;

  /**
   * @param accessToken null: calls have no credentials
   * @param gateway the IPv4 address of the gateway
   */
  constructor(sandboxDomain: string, accessToken: string | null, scheme = 'http', gateway = '127.0.0.1') {
    this.#lookup = gatewayLookup(gateway);
    this.#base = new URL(`${scheme}://${sandboxDomain}`);
    this.#headers = accessToken ? { Authorization: 'Bearer root', 'X-Access-Token': accessToken } : {};
    const authenticate: Interceptor = (next) => (request) => {
      for (const [name, value] of Object.entries(this.#headers)) request.header.set(name, value);
      return next(request);
    };
    this.#transport = createConnectTransport({
      baseUrl: this.#base.origin,
      httpVersion: '1.1',
      interceptors: [authenticate],
      nodeOptions: { lookup: this.#lookup, agent: this.#agent },
    });
    this.#process = this.client(Process);
    this.filesystem = this.client(Filesystem);
  }

  /** The procedures of one of the agent's services. */
  client<Service extends DescService>(service: Service): Client<Service> {
    return createClient(service, this.#transport);
  }

  /**
   * Runs a command to its end.
   * @throws {ConnectError} when the agent refuses
   */
  async run(
    cmd: string,
    args: string[] = [],
    options: { cwd?: string; envs?: Record<string, string> } = {},
  ): Promise<Finished> {
    const stdout: Uint8Array[] = [];
    const stderr: Uint8Array[] = [];
    for await (const { event } of this.#process.start({ process: { cmd, args, ...options } })) {
      if (event?.event.case === 'data') {
        const { output } = event.event.value;
        if (output.case === 'stdout') stdout.push(output.value);
        else if (output.case === 'stderr') stderr.push(output.value);
      } else if (event?.event.case === 'end') {
        const text = (chunks: Uint8Array[]) => Buffer.concat(chunks).toString();
        return { exitCode: event.event.value.exitCode, stdout: text(stdout), stderr: text(stderr) };
      }
    }
    throw new Error('The stream ended before the process did');
  }

  /** Starts a command and returns its pid. The command continues without a listener. */
  async start(cmd: string, args: string[] = []): Promise<number> {
    for await (const { event } of this.#process.start({ process: { cmd, args } })) {
      if (event?.event.case === 'start') return event.event.value.pid;
    }
    throw new Error('The process never started');
  }

  async processes(): Promise<number[]> {
    return (await this.#process.list({})).processes.map(({ pid }) => pid);
  }

  /** A plain HTTP request to the agent, or to another port of the sandbox. */
  async request(
    path: string,
    options: { method?: string; headers?: Record<string, string>; body?: string | Buffer; port?: number } = {},
  ): Promise<{ status: number; headers: http.IncomingHttpHeaders; body: Buffer }> {
    const host = options.port ? `${options.port}-${this.#base.host}` : this.#base.host;
    const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
      http
        .request(
          {
            host: this.#base.hostname,
            port: this.#base.port || 80,
            path,
            method: options.method ?? 'GET',
            agent: this.#agent,
            lookup: this.#lookup,
            headers: { ...(options.port ? {} : this.#headers), ...options.headers, host },
          },
          resolve,
        )
        .once('error', reject)
        .end(options.body);
    });
    return { status: response.statusCode!, headers: response.headers, body: await buffer(response) };
  }

  async upload(path: string, content: string | Buffer): Promise<void> {
    const boundary = 'sandbox-platform-upload';
    const part = (name: string, rest = '') =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${rest}\r\n\r\n`;
    const body = Buffer.concat([
      Buffer.from(`${part('path')}${path}\r\n${part('file', '; filename="f"')}`),
      Buffer.from(content),
      Buffer.from(`\r\n--${boundary}--\r\n`),
    ]);
    const reply = await this.request('/upload', {
      method: 'POST',
      headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}` },
      body,
    });
    if (reply.status >= 300) throw new Error(`upload: ${reply.status} ${reply.body}`);
  }

  async download(path: string): Promise<Buffer> {
    const reply = await this.request(`/download${path}`);
    if (reply.status >= 300) throw new Error(`download: ${reply.status} ${reply.body}`);
    return reply.body;
  }

  close(): void {
    this.#agent.destroy();
  }
}
