import type { Exchange } from '../exchange.ts';

export interface UpstreamRequest {
  /** The target for the sandbox, without the signature that the gateway has checked. */
  target: string;
  /** The Host for the server. For a sandbox, it is the unchanged one of the client. */
  host: string;
  /** The fields of the client that the server gets, a flat list. */
  fields: string[];
  /** Fields with credentials, for a server that checks them itself, a flat list. */
  credentials: string[];
  /** Trust the `X-Forwarded-*` fields of the proxy in front. */
  trustProxy: boolean;
}

/** The framing of a request's body towards the sandbox. */
export type RequestFraming = 'none' | 'length' | 'chunked';

const methodsWithBody = new Set(['POST', 'PUT', 'PATCH']);

export function chooseFraming(exchange: Exchange): RequestFraming {
  if (!exchange.hasBody) return 'none';
  return exchange.headers.contentLengths.length > 0 ? 'length' : 'chunked';
}

/** The head of the request to the sandbox, built from the parsed request. `extra`: flat list. */
export function requestHead(exchange: Exchange, request: UpstreamRequest, extra: string[] = []): string {
  const { headers, method } = exchange;
  const { fields } = request;
  let head = `${method} ${request.target} HTTP/1.1\r\nHost: ${request.host}\r\n`;
  for (let i = 0; i < fields.length; i += 2) head += `${fields[i]}: ${fields[i + 1]}\r\n`;
  const gatewayFields = gatewayHeaders(exchange, request);
  for (let i = 0; i < gatewayFields.length; i += 2) head += `${gatewayFields[i]}: ${gatewayFields[i + 1]}\r\n`;
  for (let i = 0; i < extra.length; i += 2) head += `${extra[i]}: ${extra[i + 1]}\r\n`;
  const framing = chooseFraming(exchange);
  if (framing === 'chunked') head += 'Transfer-Encoding: chunked\r\n';
  else if (framing === 'length') head += `Content-Length: ${headers.contentLengths[0]}\r\n`;
  else if (headers.contentLengths.length > 0 || methodsWithBody.has(method)) head += 'Content-Length: 0\r\n';
  return `${head}\r\n`;
}

/** The fields that the gateway adds for the server, as a flat list. */
export function gatewayHeaders(exchange: Exchange, request: UpstreamRequest): string[] {
  const { client, headers } = exchange;
  const peer = client.address.startsWith('::ffff:') ? client.address.slice(7) : client.address;
  const trusted = request.trustProxy ? headers : null;
  return [
    'X-Forwarded-For',
    trusted?.forwardedFor ? `${trusted.forwardedFor}, ${peer}` : peer,
    'X-Forwarded-Proto',
    trusted?.forwardedProto ?? (client.secure ? 'https' : 'http'),
    'X-Forwarded-Host',
    exchange.targetAuthority ?? headers.hosts[0] ?? request.host,
    'X-Request-Id',
    exchange.requestId,
    ...request.credentials,
  ];
}
