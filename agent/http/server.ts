import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type http2 from 'node:http2';
import net from 'node:net';
import type { PlatformPaths } from '../boot/platform.ts';
import type { RequestListener } from './request-listener.ts';

/** Longest request head; longer ones are answered 431. */
const maxHeadBytes = 64 * 1024;
/** How long a client may take for a request's head, and to begin with it, in milliseconds. */
const headTimeoutMs = 60_000;
/** Most connections at once; more are closed on accept. */
const maxConnections = 10_000;

/** The paths of the sandbox's clients. */
export interface SandboxPaths {
  serve: RequestListener;
  /** Called after a reply that needed none of them. */
  onAnswered(): void;
}

/**
 * The agent's server, not yet listening: `/health` and the platform's paths, which need nothing else loaded, and
 * `sandbox` for the rest. HTTP/1.1, and HTTP/2 in clear text for clients that begin with its preface.
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
      // No limit: uploads and streams of input take as long as they need.
      requestTimeout: 0,
      keepAliveTimeout: 120_000,
    },
    listener,
  );
  // The server never listens itself; this starts its check of slow heads.
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

let loadedHttp2: http2.Http2Server | undefined;

/** Loaded when the first client uses HTTP/2, which few do: the module alone is a MiB. */
function http2Server(listener: RequestListener): http2.Http2Server {
  if (!loadedHttp2) {
    const { createServer } = process.getBuiltinModule('node:http2');
    loadedHttp2 = createServer(listener as never);
    loadedHttp2.on('sessionError', () => {
      // A client broke the protocol; its session is closed by then.
    });
  }
  return loadedHttp2;
}

function serveHealth(req: IncomingMessage, res: ServerResponse): void {
  if (req.method !== 'GET' && req.method !== 'HEAD') {
    res.writeHead(405, { allow: 'GET, HEAD', 'content-length': 0 }).end();
    return;
  }
  res.writeHead(200, { 'content-type': 'text/plain', 'content-length': 2 });
  res.end('OK');
}
