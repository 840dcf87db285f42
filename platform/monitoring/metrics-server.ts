import { timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { Registry } from 'prom-client';

export interface MetricsServer {
  /** The port to listen on. */
  port: number;
  close(): Promise<void>;
}

/**
 * Serves `GET /metrics` of one process for Prometheus to clients with a token (`Authorization: Bearer …`). Concurrent
 * scrapes share one collection.
 * @param collect returns all metrics as text
 * @param onError called to log an error; a process also works without its metrics
 * @returns null when it cannot listen on the port, for example because another process uses it
 */
export async function serveMetrics(options: {
  host: string;
  port: number;
  tokens: readonly string[];
  collect: () => Promise<string>;
  onError: (error: unknown) => void;
}): Promise<MetricsServer | null> {
  let collecting: Promise<string> | null = null;
  const collectOnce = () => {
    collecting ??= options.collect().finally(() => {
      collecting = null;
    });
    return collecting;
  };
  const server = http.createServer({ requestTimeout: 10_000, headersTimeout: 10_000 }, (request, response) => {
    const answer = (status: number, text: string, headers: http.OutgoingHttpHeaders = {}) =>
      response.writeHead(status, { 'Content-Type': 'text/plain', ...headers }).end(text);
    // Bodies are not read.
    if (request.headers['transfer-encoding'] || Number(request.headers['content-length'] ?? 0) > 0) {
      answer(413, 'no body is taken\n', { Connection: 'close' });
    } else if (!options.tokens.some((token) => isBearer(request.headers.authorization, token))) {
      answer(401, 'the token of the metrics is missing or wrong\n', { 'WWW-Authenticate': 'Bearer' });
    } else if (request.method !== 'GET' || request.url?.split('?', 1)[0] !== '/metrics') {
      answer(404, 'only GET /metrics is here\n');
    } else {
      collectOnce().then(
        (text) => answer(200, text, { 'Content-Type': Registry.PROMETHEUS_CONTENT_TYPE }),
        (error: unknown) => {
          options.onError(error);
          answer(500, 'the metrics could not be collected\n');
        },
      );
    }
  });
  server.maxConnections = 64;
  try {
    server.listen(options.port, options.host);
    await once(server, 'listening');
  } catch (error) {
    options.onError(error);
    return null;
  }
  const { port } = server.address() as { port: number };
  return {
    port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

function isBearer(given: string | undefined, token: string): boolean {
  const [a, b] = [Buffer.from(given ?? ''), Buffer.from(`Bearer ${token}`)];
  return a.length === b.length && timingSafeEqual(a, b);
}
