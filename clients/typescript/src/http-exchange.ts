import http from 'node:http';
import https from 'node:https';
import { buffer } from 'node:stream/consumers';
import { connectionError, errorOfReply, SandboxError } from './errors.ts';

/** What is sent over one HTTP request. */
export interface HttpRequest {
  method: string;
  headers: Record<string, string>;
  body?: Uint8Array | string | AsyncIterable<Uint8Array> | undefined;
  signal?: AbortSignal | undefined;
  /** Uses a connection of its own, so that no request is lost on one that the server is closing. */
  isAlone?: boolean;
}

/** A place that answers HTTP. `host` is what it is asked for as, when that is not its address. */
export interface HttpServer {
  origin: string;
  host: string | null;
}

/** Error replies longer than this are cut. */
const maxErrorBytes = 64 * 1024;

const agents = { 'http:': new http.Agent({ keepAlive: true }), 'https:': new https.Agent({ keepAlive: true }) };

/**
 * Sends a request and answers with the reply's head; the body is read from it.
 * @throws {SandboxError} with the code of an error reply; `connection_failed`
 */
export async function exchange(server: HttpServer, path: string, request: HttpRequest): Promise<http.IncomingMessage> {
  const url = new URL(path, `${server.origin}/`);
  const headers = { ...request.headers, ...(server.host === null ? {} : { Host: server.host }) };
  const options: https.RequestOptions = {
    method: request.method,
    headers,
    agent: request.isAlone ? false : agents[url.protocol as keyof typeof agents],
    ...(request.signal && { signal: request.signal }),
    ...(server.host !== null && { servername: server.host.replace(/:\d+$/, '') }),
  };
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const sent = (url.protocol === 'https:' ? https : http).request(url, options, resolve);
    sent.once('error', (error) => {
      reject(request.signal?.aborted ? request.signal.reason : connectionError(url.origin, error));
    });
    // Long silences are normal; a peer that is gone is not.
    sent.once('socket', (socket) => socket.setKeepAlive(true, 20_000));
    sendBody(sent, request.body).catch((error) => sent.destroy(error));
  });
  if (response.statusCode! < 300 || response.statusCode === 304) return response;
  const text = await readText(response, maxErrorBytes).catch(() => '');
  throw errorOfReply(response.statusCode!, response.headers, text);
}

async function sendBody(sent: http.ClientRequest, body: HttpRequest['body']): Promise<void> {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    sent.end(body);
    return;
  }
  for await (const chunk of body) {
    if (sent.destroyed) return;
    if (!sent.write(chunk)) await new Promise((resolve) => sent.once('drain', resolve).once('close', resolve));
  }
  sent.end();
}

/** The whole body as text, of at most so many bytes. */
export async function readText(response: http.IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response) {
    length += (chunk as Buffer).length;
    if (length > maxBytes) throw new SandboxError('bad_reply', `The reply is longer than ${maxBytes} bytes`);
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The whole body. */
export async function readBytes(response: http.IncomingMessage): Promise<Buffer> {
  try {
    return await buffer(response);
  } catch (error) {
    throw connectionError('The reply broke off', error as Error);
  }
}
