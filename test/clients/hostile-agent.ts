import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export type Answer = (request: http.IncomingMessage, reply: http.ServerResponse) => void;

/** An API with one sandbox, and the agent of this sandbox, which answers what a test wants. */
export class HostileAgent {
  readonly sandboxId = 'sbx-hostile';
  /** By method, such as `Filesystem/Stat`, or the first name of the path, such as `download`. */
  answers: Record<string, Answer> = {};
  /** Requests at the agent whose connections are open. */
  open = 0;
  connection = { apiUrl: '', apiKey: 'key', gatewayUrl: '' };
  #servers: http.Server[] = [];

  async start(): Promise<void> {
    const data = {
      ...{ sandbox_id: this.sandboxId, sandbox_domain: `${this.sandboxId}.test`, envd_access_token: 'token' },
      status: 'running',
    };
    this.connection.apiUrl = await this.#serve(json({ success: true, data }));
    this.connection.gatewayUrl = await this.#serve((request, reply) => {
      this.open += 1;
      reply.once('close', () => {
        this.open -= 1;
      });
      request.resume();
      const [, first, method] = request.url!.split('?', 1)[0]!.split('/');
      const name = first!.startsWith('sandboxagent.') ? `${first!.slice('sandboxagent.'.length)}/${method}` : first!;
      this.answers[name]!(request, reply);
    });
  }

  stop(): void {
    for (const server of this.#servers) {
      server.closeAllConnections();
      server.close();
    }
  }

  async #serve(answer: Answer): Promise<string> {
    const server = http.createServer(answer).listen(0, '127.0.0.1');
    this.#servers.push(server);
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
}

export const json =
  (value: unknown): Answer =>
  (_, reply) =>
    reply.end(JSON.stringify(value));

/** A message in a frame of a Connect stream. */
export function frame(message: unknown, flags = 0): Buffer {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, text]);
}
