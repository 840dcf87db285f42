import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Allows scripts of any web page to call the sandbox (gRPC-Web needs this). A page only has the credentials that it was
 * given, because the agent uses no cookies. Returns true when the request was a preflight and was answered.
 */
export function allowCrossOrigin(req: IncomingMessage, res: ServerResponse): boolean {
  res.setHeader('access-control-allow-origin', '*');
  res.setHeader(
    'access-control-expose-headers',
    'grpc-status, grpc-message, grpc-status-details-bin, etag, content-range',
  );
  if (req.method !== 'OPTIONS' || req.headers['access-control-request-method'] === undefined) return false;
  res.setHeader('access-control-allow-methods', 'GET, HEAD, POST, DELETE');
  res.setHeader('access-control-allow-headers', req.headers['access-control-request-headers'] ?? '*');
  res.setHeader('access-control-max-age', '7200');
  res.writeHead(204).end();
  return true;
}
