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

/** An endpoint of webhooks on loopback that keeps what it gets. */
export class WebhookReceiver {
  readonly received: Received[] = [];
  /** The most requests that were open at once. */
  mostOpen = 0;
  #open = 0;
  #answer: Answer;
  readonly #server: http.Server;

  private constructor(answer: Answer) {
    this.#answer = answer;
    this.#server = http.createServer((request, response) => {
      this.#open += 1;
      this.mostOpen = Math.max(this.mostOpen, this.#open);
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
    // Only senders close connections that are idle: no request meets one that is being closed.
    this.#server.keepAliveTimeout = 0;
  }

  static async start(answer: Answer = answerWith(200)): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver(answer);
    // After a test that failed it must not keep the process.
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

  /** Ids of events, each as often as it came. */
  get ids(): string[] {
    return this.received.map(({ id }) => id);
  }

  /** Ids of events, each once: a slow machine may get one twice. */
  get distinctIds(): string[] {
    return [...new Set(this.ids)];
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
