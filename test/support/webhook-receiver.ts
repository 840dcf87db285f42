import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  id: string;
  headers: Record<string, string>;
  body: string;
}

/** How a receiver answers a request. */
export type Answer = (request: Received, response: http.ServerResponse, number: number) => void;

export const answerWith =
  (status: number, headers: Record<string, string> = {}, body = ''): Answer =>
  (_request, response) =>
    void response.writeHead(status, headers).end(body);

/** An endpoint of webhooks on loopback that stores received requests. */
export class WebhookReceiver {
  readonly received: Received[] = [];
  /** The maximum number of requests that were open at the same time. */
  maxOpen = 0;
  #open = 0;
  #answer: Answer;
  readonly #server: http.Server;

  private constructor(answer: Answer) {
    this.#answer = answer;
    this.#server = http.createServer((request, response) => {
      this.#open += 1;
      this.maxOpen = Math.max(this.maxOpen, this.#open);
      response.on('close', () => {
        this.#open -= 1;
      });
      const chunks: Buffer[] = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('error', () => {});
      request.on('end', () => {
        const headers = request.headers as Record<string, string>;
        const received = { id: headers['webhook-id']!, headers, body: Buffer.concat(chunks).toString('utf8') };
        this.received.push(received);
        this.#answer(received, response, this.received.length);
      });
    });
    // Only senders close idle connections, so no request arrives on a connection that is being closed.
    this.#server.keepAliveTimeout = 0;
  }

  static async start(answer: Answer = answerWith(200)): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver(answer);
    // It must not keep the process alive after a failed test.
    receiver.#server.unref();
    await new Promise<void>((resolve) => receiver.#server.listen(0, '127.0.0.1', resolve));
    return receiver;
  }

  set answer(answer: Answer) {
    this.#answer = answer;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hooks`;
  }

  /** Ids of received events, with repetitions. */
  get ids(): string[] {
    return this.received.map(({ id }) => id);
  }

  /** Ids of received events without repetitions: a slow machine may get one twice. */
  get distinctIds(): string[] {
    return [...new Set(this.ids)];
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
