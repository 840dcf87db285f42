import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { connectionError, errorOfReply, SandboxError } from './errors.ts';

/** The content of one HTTP request. */
export interface HttpRequest {
  method: string;
  headers: Record<string, string>;
  body?: Uint8Array | string | AsyncIterable<Uint8Array> | undefined;
  signal?: AbortSignal | undefined;
  /** Uses its own connection, so that no request is lost on a connection that the server is closing. */
  isAlone?: boolean;
}

/** An HTTP server. `host` is the value of the Host field, if it differs from the address. */
export interface HttpServer {
  origin: string;
  host: string | null;
}

/** Longer error replies are truncated. */
const maxErrorBytes = 64 * 1024;
const connectTimeoutMs = 20_000;

const agents = { 'http:': new http.Agent({ keepAlive: true }), 'https:': new https.Agent({ keepAlive: true }) };

/**
 * Sends a request and returns the reply's head. The body is read from it.
 * @throws {SandboxError} with the code of an error reply; `connection_failed`. An error of the request's body is thrown
 *   unchanged
 */
export async function exchange(server: HttpServer, path: string, request: HttpRequest): Promise<http.IncomingMessage> {
  const url = new URL(path, `${server.origin}/`);
  const headers = {
    ...request.headers,
    ...(server.host !== null && { Host: server.host }),
    // With `close`, a server that replies before it has read the body resets the connection, and the reply is lost.
    ...(request.isAlone && { Connection: 'keep-alive' }),
  };
  const options: https.RequestOptions = {
    method: request.method,
    headers,
    agent: request.isAlone ? false : agents[url.protocol as keyof typeof agents],
    ...(request.signal && { signal: request.signal }),
    ...(server.host !== null && { servername: server.host.replace(/:\d+$/, '') }),
  };
  const sent = (url.protocol === 'https:' ? https : http).request(url, options);
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve);
    sent.once('error', (error) => {
      reject(request.signal?.aborted ? request.signal.reason : connectionError(url.origin, error));
    });
    sent.once('socket', (socket) => {
      // Long silences are normal, but a vanished peer must be detected.
      socket.setKeepAlive(true, 20_000);
      if (socket.connecting) limitConnecting(sent, socket);
    });
    sendBody(sent, request.body).catch((error) => {
      reject(error);
      sent.destroy();
    });
  });
  if (response.statusCode! < 300 || response.statusCode === 304) return response;
  const text = await readText(response, maxErrorBytes).catch(() => '');
  // The rest of the body has no reader.
  if (!sent.writableFinished) sent.destroy();
  throw errorOfReply(response.statusCode!, response.headers, text);
}

function limitConnecting(sent: http.ClientRequest, socket: Socket): void {
  const onTimeout = () => sent.destroy(new Error(`no connection within ${connectTimeoutMs / 1000} s`));
  const timer = setTimeout(onTimeout, connectTimeoutMs);
  const stop = () => clearTimeout(timer);
  socket.once('connect', stop).once('close', stop);
}

async function sendBody(sent: http.ClientRequest, body: HttpRequest['body']): Promise<void> {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    sent.end(body);
    return;
  }
  for await (const chunk of body) {
    if (sent.destroyed) return;
    if (!sent.write(chunk)) await drained(sent);
  }
  sent.end();
}

/** Waits until more can be written, or until the request is closed. */
function drained(sent: http.ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      sent.off('drain', done).off('close', done);
      resolve();
    };
    sent.on('drain', done).on('close', done);
  });
}

/** The whole body as text, with a maximum number of bytes. @throws {SandboxError} `bad_reply` */
export async function readText(response: http.IncomingMessage, maxBytes: number): Promise<string> {
  return Buffer.concat(await readChunks(response, maxBytes)).toString('utf8');
}

/** The whole body, with a maximum number of bytes. @throws {SandboxError} `bad_reply`, `connection_failed` */
export async function readBytes(response: http.IncomingMessage, maxBytes: number): Promise<Buffer> {
  try {
    return Buffer.concat(await readChunks(response, maxBytes));
  } catch (error) {
    throw error instanceof SandboxError ? error : connectionError('The reply broke off', error as Error);
  }
}

/** The value of a JSON text from a sandbox. `reviver` is that of `JSON.parse`. @throws {SandboxError} `bad_reply` */
// biome-ignore lint/suspicious/noExplicitAny: the same type as that of `JSON.parse`
export function parseReply(text: string, reviver?: (key: string, value: unknown) => unknown): any {
  try {
    return JSON.parse(text, reviver);
  } catch (cause) {
    throw new SandboxError('bad_reply', 'The reply of the sandbox is no JSON', { cause });
  }
}

async function readChunks(response: http.IncomingMessage, maxBytes: number): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response) {
    length += (chunk as Buffer).length;
    if (length > maxBytes) throw new SandboxError('bad_reply', `The reply is longer than ${maxBytes} bytes`);
    chunks.push(chunk as Buffer);
  }
  return chunks;
}
