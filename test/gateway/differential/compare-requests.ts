import net from 'node:net';
import { formatHost, type StartedGateway, startGateway } from '../started-gateway.ts';
import { startRawUpstream, type UpstreamServer } from '../upstream-server.ts';
import { Llhttp, type ReadMessage } from './llhttp.ts';

/** Fields that the gateway writes or removes. The framing is compared through the body. */
const ownFields =
  /^(host|connection|keep-alive|content-length|transfer-encoding|te|trailer|upgrade|proxy-.*|x-forwarded-.*|x-request-id|cookie|expect)$/;

/** A gateway in front of a sandbox that parses what the gateway sends with llhttp. */
export class RequestComparison {
  readonly #gateway: StartedGateway;
  readonly #sandbox: UpstreamServer;
  readonly #received: ReadMessage[];
  readonly #refused: string[];

  private constructor(gateway: StartedGateway, sandbox: UpstreamServer, received: ReadMessage[], refused: string[]) {
    this.#gateway = gateway;
    this.#sandbox = sandbox;
    this.#received = received;
    this.#refused = refused;
  }

  static readonly host = formatHost('sbx-one');

  static async start(): Promise<RequestComparison> {
    const received: ReadMessage[] = [];
    const refused: string[] = [];
    const sandbox = await startRawUpstream((socket) => {
      const parser = new Llhttp(null);
      let answered = 0;
      socket.on('data', (bytes) => {
        parser.feed(bytes);
        if (parser.refusal !== null) refused.push(`${parser.refusal}: ${bytes.toString('latin1')}`);
        for (; parser.messages[answered]?.isComplete; answered += 1) {
          received.push(parser.messages[answered]!);
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
        }
      });
    });
    const gateway = await startGateway();
    gateway.routes.set({ sandboxId: 'sbx-one', address: sandbox.address, agentPort: sandbox.port });
    return new RequestComparison(gateway, sandbox, received, refused);
  }

  async stop(): Promise<void> {
    await this.#gateway.stop();
    await this.#sandbox.stop();
  }

  /**
   * Sends a request and compares how llhttp reads it with how it reads what the sandbox got.
   * @returns the difference; null when there is none, or the request was refused. Incomplete requests are not sent.
   */
  async compare(text: string, cut: number): Promise<{ finding: string | null; passed: boolean }> {
    const bytes = Buffer.from(text, 'latin1');
    const parser = new Llhttp(null);
    parser.feed(bytes);
    const [asked] = parser.messages;
    const isWhole = asked?.isComplete ?? false;
    if ((!isWhole && parser.refusal === null) || asked?.switchesProtocol) return { finding: null, passed: false };
    this.#received.length = 0;
    this.#refused.length = 0;
    const status = await this.#send(bytes, cut, asked?.method ?? 'GET');
    if (this.#refused.length > 0) return { finding: `the sandbox was sent ${this.#refused[0]}`, passed: false };
    const [seen] = this.#received;
    const whole = parser.messages.filter(({ isComplete }) => isComplete).length;
    if (this.#received.length > whole) {
      return { finding: `the sandbox was sent ${JSON.stringify(seen)}`, passed: false };
    }
    if (!seen)
      return {
        finding: status === null || status >= 400 ? null : `answered ${status} without the sandbox`,
        passed: false,
      };
    if (!isWhole) return { finding: `the sandbox was sent ${JSON.stringify(seen)}`, passed: false };
    const [expected, actual] = [formatMeaning(asked!, asked!), formatMeaning(seen, asked!)];
    return { finding: expected === actual ? null : `the sandbox was sent ${actual}, not ${expected}`, passed: true };
  }

  /** @returns the status of the first response; null when the gateway closed without one */
  #send(bytes: Buffer, cut: number, method: string): Promise<number | null> {
    return new Promise((resolve, reject) => {
      const parser = new Llhttp(method);
      const socket = net.connect(this.#gateway.port, '127.0.0.1');
      const finish = (status: number | null) => {
        socket.destroy();
        resolve(status);
      };
      socket.setNoDelay(true);
      socket.write(bytes.subarray(0, cut));
      // After the first piece, so that the gateway usually reads them separately.
      setImmediate(() => socket.write(bytes.subarray(cut)));
      socket.setTimeout(30_000, () => {
        socket.destroy();
        reject(new Error(`no answer to ${JSON.stringify(bytes.toString('latin1'))}`));
      });
      socket.on('data', (piece) => {
        parser.feed(piece);
        const last = parser.messages.find(({ status, isComplete }) => status >= 200 && isComplete);
        if (last) finish(last.status);
      });
      socket.on('error', () => finish(null));
      socket.on('close', () => finish(null));
    });
  }
}

/** @param asked the request whose Connection field lists more fields that end at the gateway */
function formatMeaning({ method, target, fields, body }: ReadMessage, asked: ReadMessage): string {
  const nominated = new Set<string>();
  for (let at = 0; at < asked.fields.length; at += 2) {
    if (asked.fields[at]!.toLowerCase() !== 'connection') continue;
    for (const token of asked.fields[at + 1]!.toLowerCase().split(','))
      nominated.add(token.replace(/^[ \t]+|[ \t]+$/g, ''));
  }
  const kept: string[] = [];
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at]!.toLowerCase();
    if (!ownFields.test(name) && !nominated.has(name)) kept.push(fields[at]!, fields[at + 1]!);
  }
  return JSON.stringify({ method, target, kept, body });
}
