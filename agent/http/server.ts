import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { PlatformPaths } from '../boot/platform.ts';

/** Longest request head; longer ones are answered 431. */
const maxHeadBytes = 64 * 1024;
/** How long a client may take for a request's head, in milliseconds. */
const headTimeoutMs = 60_000;

export type RequestListener = (req: IncomingMessage, res: ServerResponse) => Promise<void> | void;

/**
 * The agent's HTTP server, not yet listening: `/health` and the platform's paths, which need nothing else loaded, and
 * `sandboxPaths` for the rest.
 */
export function createAgentServer(platform: PlatformPaths, sandboxPaths: RequestListener): http.Server {
  const serve: RequestListener = (req, res) => {
    const url = req.url!;
    if (url === '/health' || url.startsWith('/health?')) return serveHealth(req, res);
    if (url.startsWith('/platform/')) return platform.serve(req, res);
    return sandboxPaths(req, res);
  };
  return http.createServer(
    {
      maxHeaderSize: maxHeadBytes,
      headersTimeout: headTimeoutMs,
      // Uploads and streams of input last as long as they last.
      requestTimeout: 0,
      keepAliveTimeout: 120_000,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
    },
    (req, res) => {
      // Nothing that one request throws may end the agent.
      Promise.resolve(serve(req, res)).catch((error) => {
        console.error('agent:', error);
        res.destroy();
      });
    },
  );
}

function serveHealth(req: IncomingMessage, res: ServerResponse): void {
  if (req.method !== 'GET' && req.method !== 'HEAD') {
    res.writeHead(405, { allow: 'GET, HEAD', 'content-length': 0 }).end();
    return;
  }
  res.writeHead(200, { 'content-type': 'text/plain', 'content-length': 2 });
  res.end('OK');
}
