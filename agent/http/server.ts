import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type http2 from 'node:http2';
import net from 'node:net';
import type { Duplex } from 'node:stream';
import type { PlatformPaths } from '../boot/platform.ts';
import type { RequestListener } from './request-listener.ts';

/** The longest request head. Longer ones get 431. */
const maxHeadBytes = 64 * 1024;
/** How long a client may take to begin and to complete a request's head, in milliseconds. */
const headTimeoutMs = 60_000;
/** The maximum number of connections. Further ones are closed on accept. */
const maxConnections = 10_000;

/** The paths of the sandbox's clients. */
export interface SandboxPaths {
  serve: RequestListener;
  /** Called after a reply that needed none of them. */
  onAnswered(): void;
}

/**
 * The agent's server, not listening yet. `/health` and the platform's paths need no other modules; `sandbox` serves the
 * rest. It supports HTTP/1.1, and HTTP/2 in clear text for clients that begin with its preface.
 */
export function createAgentServer(platform: PlatformPaths, sandbox: SandboxPaths): net.Server {
  let answered = false;
  const serve: RequestListener = (req, res) => {
    const url = req.url!;
    const health = url === '/health' || url.startsWith('/health?');
    if (!health && !url.startsWith('/platform/')) return sandbox.serve(req, res);
    if (!answered) {
      answered = true;
      res.once('finish', sandbox.onAnswered);
    }
    return health ? serveHealth(req, res) : platform.serve(req, res);
  };
  const listener = (req: IncomingMessage, res: ServerResponse) => {
    // No exception of a request may end the agent.
    Promise.resolve(serve(req, res)).catch((error) => {
      console.error('agent:', error);
      res.destroy();
    });
  };
  const http1 = http.createServer(
    {
      maxHeaderSize: maxHeadBytes,
      headersTimeout: headTimeoutMs,
      // There is no limit, because uploads and streams of input take as long as they need.
      requestTimeout: 0,
      keepAliveTimeout: 120_000,
    },
    listener,
  );
  http1.on('clientError', replyToMalformed);
  http1.on('connect', (req, socket, head) => platform.serveConnect(req, socket as net.Socket, head));
  // The server itself never listens. This event starts its check of slow heads.
  http1.emit('listening');

  const server = net.createServer(
    { noDelay: true, keepAlive: true, keepAliveInitialDelay: headTimeoutMs },
    (socket) => {
      socket.setTimeout(headTimeoutMs, () => socket.destroy());
      socket.on('error', () => socket.destroy());
      socket.once('data', (first: Buffer) => {
        socket.setTimeout(0);
        socket.removeAllListeners('timeout');
        socket.pause();
        socket.unshift(first);
        const http2Preface = first.length >= 3 && first.toString('latin1', 0, 3) === 'PRI';
        (http2Preface ? http2Server(listener) : http1).emit('connection', socket);
        if (!http2Preface) socket.resume();
      });
    },
  );
  server.maxConnections = maxConnections;
  return server;
}

/** The replies that Node itself gives by default. */
const malformed = new Map([
  ['HPE_HEADER_OVERFLOW', '431 Request Header Fields Too Large'],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', '413 Payload Too Large'],
  ['ERR_HTTP_REQUEST_TIMEOUT', '408 Request Timeout'],
]);
const requestLine = /^[A-Za-z-]{1,64} \/[\x21-\x7e]* HTTP\/1\.[01]\r\n/;

/**
 * Replies to a request that Node did not parse. Node knows a list of methods. HTTP/2 has none, so the gateway forwards
 * other methods, too.
 */
function replyToMalformed(error: Error & { code?: string; rawPacket?: Buffer }, socket: Duplex): void {
  const { _httpMessage: reply } = socket as Duplex & { _httpMessage?: ServerResponse };
  if (socket.writable && !reply?.headersSent) {
    const isMethod = error.code === 'HPE_INVALID_METHOD' && requestLine.test(error.rawPacket?.toString('latin1') ?? '');
    const status = isMethod ? '405 Method Not Allowed' : (malformed.get(error.code ?? '') ?? '400 Bad Request');
    socket.write(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
  }
  socket.destroy(error);
}

let loadedHttp2: http2.Http2Server | undefined;

/** Loaded when the first client uses HTTP/2, because few clients do and the module takes a MiB. */
function http2Server(listener: RequestListener): http2.Http2Server {
  if (!loadedHttp2) {
    const { createServer } = process.getBuiltinModule('node:http2');
    loadedHttp2 = createServer(listener as never);
    loadedHttp2.on('sessionError', () => {
      // A client broke the protocol, and its session is already closed.
    });
  }
  return loadedHttp2;
}

function serveHealth(req: IncomingMessage, res: ServerResponse): void {
  if (req.method !== 'GET' && req.method !== 'HEAD') {
    res.writeHead(405, { allow: 'GET, HEAD', 'content-length': 0 }).end();
    return;
  }
  // The clients of E2B expect no content.
  if (req.headers['e2b-sandbox-id'] !== undefined) {
    res.writeHead(204).end();
    return;
  }
  res.writeHead(200, { 'content-type': 'text/plain', 'content-length': 2 });
  res.end('OK');
}
