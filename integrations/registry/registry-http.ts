import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import type { Readable } from 'node:stream';
import tls from 'node:tls';
import type { OutboundGuard } from './outbound-guard.ts';

/** The time limit until the head of a reply, and between two chunks of its body. */
export const headMs = 30_000;
const silenceMs = 60_000;
/** The maximum number of 1xx replies before the final one. */
const maxInterimReplies = 20;
/** The bytes and the time after which the rest of an unwanted body is not read any more. */
const maxDiscardedBytes = 65_536;
const discardMs = 10_000;
/** The time limit of a body that is kept in memory. */
const readMs = 120_000;

export interface RegistryHttpOptions {
  /** Checks every connection. Absent for a server that the operator configured. */
  guard?: OutboundGuard;
  /** PEM of authorities that are trusted in addition to the usual ones. */
  ca?: string;
}

export interface HttpReply {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: Readable;
}

class StaleConnectionError extends Error {}

/**
 * Sends one request over HTTP or TLS. The caller handles redirects. @throws the signal's reason, or the reason of a
 * missing reply
 */
export class RegistryHttp {
  readonly #options: RegistryHttpOptions;
  readonly #agents: { 'http:': http.Agent; 'https:': https.Agent };

  constructor(options: RegistryHttpOptions) {
    this.#options = options;
    const keepAlive = { keepAlive: true, maxSockets: 128, timeout: silenceMs };
    const ca = options.ca ? { ca: [...tls.rootCertificates, options.ca] } : {};
    this.#agents = { 'http:': new http.Agent(keepAlive), 'https:': new https.Agent({ ...keepAlive, ...ca }) };
  }

  async send(
    url: URL,
    request: {
      method: string;
      headers: Record<string, string>;
      body?: string | Buffer | undefined;
      signal?: AbortSignal | undefined;
    },
  ): Promise<HttpReply> {
    if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new Error(`${url.protocol} is not HTTP`);
    const { guard } = this.#options;
    const hostname = url.hostname.replace(/^\[(.*)\]$/, '$1');
    const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
    // The connection goes to the checked address. The name is used only for TLS and `Host`.
    const target = guard ? await guard.resolve(hostname, port, request.signal) : null;
    request.signal?.throwIfAborted();
    const isRepeatable = request.method !== 'POST';
    try {
      return await this.#exchange(url, hostname, port, target?.address ?? hostname, request);
    } catch (error) {
      // The server closed a kept-alive connection just as the request was sent on it.
      if (!(error instanceof StaleConnectionError) || !isRepeatable) throw error;
      return this.#exchange(url, hostname, port, target?.address ?? hostname, request);
    }
  }

  #exchange(
    url: URL,
    hostname: string,
    port: number,
    address: string,
    request: Parameters<RegistryHttp['send']>[1],
  ): Promise<HttpReply> {
    return new Promise((resolve, reject) => {
      const sent = (url.protocol === 'https:' ? https : http).request({
        agent: this.#agents[url.protocol as 'http:'],
        method: request.method,
        host: address,
        port,
        path: `${url.pathname}${url.search}`,
        headers: { host: url.host, 'user-agent': 'sandbox-platform', ...request.headers },
        ...(url.protocol === 'https:' && !net.isIP(hostname) && { servername: hostname }),
        ...(request.signal && { signal: request.signal }),
      });
      const head = setTimeout(() => sent.destroy(new Error(`${url.host} does not answer`)), headMs);
      sent.on('error', (error) => {
        clearTimeout(head);
        if (request.signal?.aborted) reject(request.signal.reason);
        else if (sent.reusedSocket && (error as NodeJS.ErrnoException).code === 'ECONNRESET') {
          reject(new StaleConnectionError(`${url.host} has closed the connection`, { cause: error }));
        } else reject(error);
      });
      // A request that ends without a reply and without an error, such as one whose protocol the server switches.
      sent.on('close', () => {
        clearTimeout(head);
        reject(new Error(`${url.host} has closed the connection`));
      });
      let interim = 0;
      sent.on('information', () => {
        interim += 1;
        if (interim > maxInterimReplies) sent.destroy(new Error(`${url.host} sends too many interim replies`));
      });
      sent.on('response', (reply) => {
        clearTimeout(head);
        reply.setTimeout(silenceMs, () => reply.destroy(new Error(`${url.host} has stopped sending`)));
        resolve({ status: reply.statusCode!, headers: reply.headers, body: reply });
      });
      sent.end(request.body);
    });
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }
}

/** The limit is lower than the registry's own limits, because manifests, tokens and errors are small. */
export async function readAll(body: Readable, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  const late = setTimeout(() => body.destroy(new Error('The reply takes too long')), readMs);
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length;
      // Leaving the loop closes the connection.
      if (size > maxBytes) throw new Error(`The reply has more than ${maxBytes} bytes`);
      chunks.push(chunk);
    }
  } finally {
    clearTimeout(late);
  }
  return Buffer.concat(chunks);
}

/** Reads the rest of an unwanted body, so that its connection can be reused. Closes the connection if it is long. */
export function discard(body: Readable): void {
  let size = 0;
  const late = setTimeout(() => body.destroy(), discardMs);
  body.on('error', () => {});
  body.on('close', () => clearTimeout(late));
  body.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > maxDiscardedBytes) body.destroy();
  });
}
