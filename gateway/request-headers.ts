import { forwardedClientField } from '../domain/forwarded-client.ts';
import { isDisguisedCredential, nominatedNames, withoutNames } from './header-fields.ts';
import { takeSessions } from './pages/page-session.ts';

/**
 * A request's header fields, read once. `forward` is for the sandbox. It does not contain connection-level fields,
 * fields that only the gateway sets (`X-Forwarded-*`), the platform's own credential, and the session of the web pages.
 */
export interface RequestHeaders {
  /** Flat list of names and values, as sent. */
  forward: string[];
  hosts: string[];
  accessToken: string | null;
  /** E2B's name of the access token in requests to ports other than the agent's. */
  trafficToken: string | null;
  /** The destination of a request whose host name names none. They are also in `forward`. */
  sandboxIds: string[];
  sandboxPorts: string[];
  /** Sessions of the web pages, removed from the cookies. */
  pageSessions: string[];
  contentType: string | null;
  contentLengths: string[];
  transferEncodings: string[];
  expect: string | null;
  upgrade: string | null;
  requestId: string | null;
  forwardedFor: string | null;
  forwardedProto: string | null;
  /** The caller accepts trailers. */
  acceptsTrailers: boolean;
}

/** Reads a flat list of raw names and values. */
export function readRequestHeaders(raw: string[]): RequestHeaders {
  const headers: RequestHeaders = {
    forward: [],
    hosts: [],
    accessToken: null,
    trafficToken: null,
    sandboxIds: [],
    sandboxPorts: [],
    pageSessions: [],
    contentType: null,
    contentLengths: [],
    transferEncodings: [],
    expect: null,
    upgrade: null,
    requestId: null,
    forwardedFor: null,
    forwardedProto: null,
    acceptsTrailers: false,
  };
  const { forward } = headers;
  let nominated: Set<string> | null = null;
  let cookies: string[] | null = null;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    const value = raw[i + 1]!;
    switch (name.toLowerCase()) {
      case 'host':
        headers.hosts.push(value);
        break;
      case 'connection':
        nominated = nominatedNames(value, nominated);
        break;
      case 'content-length':
        headers.contentLengths.push(value);
        break;
      case 'transfer-encoding':
        headers.transferEncodings.push(value);
        break;
      case 'te':
        headers.acceptsTrailers ||= /(^|,)\s*trailers\s*($|,|;)/i.test(value);
        break;
      case 'upgrade':
        headers.upgrade = value;
        break;
      case 'expect':
        headers.expect = value;
        break;
      case 'x-access-token':
        headers.accessToken = headers.accessToken === null ? value : `${headers.accessToken}, ${value}`;
        break;
      case 'e2b-traffic-access-token':
        headers.trafficToken = headers.trafficToken === null ? value : `${headers.trafficToken}, ${value}`;
        break;
      case 'e2b-sandbox-id':
        headers.sandboxIds.push(value);
        forward.push(name, value);
        break;
      case 'e2b-sandbox-port':
        headers.sandboxPorts.push(value);
        forward.push(name, value);
        break;
      case 'x-request-id':
        headers.requestId = value;
        break;
      case 'x-forwarded-for':
        headers.forwardedFor = headers.forwardedFor === null ? value : `${headers.forwardedFor}, ${value}`;
        break;
      case 'x-forwarded-proto':
        headers.forwardedProto = value;
        break;
      case 'cookie':
        // HTTP/2 sends each cookie in a separate field. HTTP/1.1 has one field.
        if (cookies) cookies.push(value);
        else cookies = [value];
        break;
      case 'content-type':
        headers.contentType = value;
        forward.push(name, value);
        break;
      case 'keep-alive':
      case 'proxy-connection':
      case 'proxy-authorization':
      case 'proxy-authenticate':
      case 'http2-settings':
      case 'trailer':
      case 'x-platform-token':
      case forwardedClientField:
      case 'x-forwarded-host':
      case 'x-forwarded-port':
      case 'x-forwarded-server':
      case 'x-forwarded-prefix':
      case 'x-forwarded-scheme':
      case 'x-real-ip':
      case 'forwarded':
        break;
      default:
        if (!isDisguisedCredential(name)) forward.push(name, value);
    }
  }
  if (cookies) {
    const { rest, sessions } = takeSessions(cookies.join('; '));
    headers.pageSessions = sessions;
    if (rest !== null) forward.push('cookie', rest);
  }
  if (nominated) headers.forward = withoutNames(forward, nominated);
  return headers;
}
