import http from 'node:http';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { proveKey, RequestBodies, RequestRefused } from './request-bodies.ts';
import { createMcpServer } from './tools.ts';

export interface HttpServerOptions {
  apiUrl: string;
  gatewayUrl?: string | undefined;
  /** Web pages of these origins may send requests, for example `http://localhost:3000`. */
  allowedOrigins: readonly string[];
}

const mebibyte = 1024 * 1024;
/** Most requests have a few KiB. Long ones carry files. */
const bodyLimits = { bodyBytes: 5 * mebibyte, unprovenBytes: mebibyte / 16, totalBytes: 256 * mebibyte };
/** Other texts cannot be keys of the platform. */
const keyShape = /^(spk_[0-9A-Za-z]{49}|e2b_[0-9a-f]{106})$/;

/**
 * MCP over streamable HTTP at `/mcp`, without sessions: each request has the key of its caller and works on the
 * caller's sandboxes. A request from a web page is refused unless its origin is allowed, even with a valid key.
 */
export function createHttpServer({ apiUrl, gatewayUrl, allowedOrigins }: HttpServerOptions): http.Server {
  const bodies = new RequestBodies(bodyLimits, (apiKey) => proveKey(apiUrl, apiKey));
  const server = http.createServer((request, response) => {
    serve(request, response).catch((error: Error) => {
      // The client has closed the connection.
      if (response.destroyed) return;
      if (error instanceof RequestRefused) return refuse(response, error.status, error.message);
      process.stderr.write(`sandbox-platform-mcp: ${error.message}\n`);
      if (response.headersSent) response.destroy();
      else refuse(response, 500, 'Something went wrong');
    });
  });
  server.headersTimeout = 10_000;
  server.requestTimeout = 30_000;
  server.maxConnections = 500;
  // Longer than clients and load balancers keep an idle connection, because they might use a connection that is just
  // being closed.
  server.keepAliveTimeout = 65_000;

  async function serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'http://mcp');
    if (pathname !== '/mcp') return refuse(response, 404, 'The server is at /mcp');
    const { origin } = request.headers;
    if (origin !== undefined && !allowedOrigins.includes(origin)) {
      return refuse(response, 403, 'Pages of this origin may not call');
    }
    if (origin !== undefined) allowOrigin(response, origin);
    if (request.method === 'OPTIONS') {
      response.writeHead(204).end();
      return;
    }
    const apiKey = readKey(request);
    if (apiKey === null) {
      response.setHeader('WWW-Authenticate', 'Bearer');
      return refuse(response, 401, 'Send an API key: Authorization: Bearer <key>');
    }
    // Without sessions there are no streams to open and no sessions to end.
    if (request.method !== 'POST') {
      response.setHeader('Allow', 'POST');
      return refuse(response, 405, 'Only POST');
    }
    const message = parseJson(await bodies.read(request, response, apiKey));
    if (message === undefined) return refuse(response, 400, 'The body is not valid JSON', -32700);
    const mcp = createMcpServer({ apiUrl, apiKey, ...(gatewayUrl !== undefined && { gatewayUrl }) });
    const transport = new StreamableHTTPServerTransport();
    response.once('close', () => void mcp.close());
    await mcp.connect(transport);
    await transport.handleRequest(request, response, message);
  }
  return server;
}

function readKey({ headers }: http.IncomingMessage): string | null {
  const [, bearer] = /^Bearer ([\x21-\x7e]+)$/i.exec(headers.authorization ?? '') ?? [];
  const key = bearer ?? headers['x-api-key'];
  return typeof key === 'string' && keyShape.test(key) ? key : null;
}

/** Undefined: it is not JSON. */
function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

function allowOrigin(response: http.ServerResponse, origin: string): void {
  response.setHeader('Access-Control-Allow-Origin', origin);
  response.setHeader('Vary', 'Origin');
  response.setHeader('Access-Control-Allow-Methods', 'POST');
  response.setHeader('Access-Control-Allow-Headers', 'authorization, content-type, mcp-protocol-version, x-api-key');
}

function refuse(response: http.ServerResponse, status: number, message: string, code = -32000): void {
  const body = JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id: null });
  // The rest of the request is not read.
  response.writeHead(status, { 'Content-Type': 'application/json', Connection: 'close' }).end(body);
}
