import type { Connection } from './connection-options.ts';
import type { HttpServer } from './http-exchange.ts';

/**
 * Where requests to a sandbox go. Names below `.localhost` mean the machine that answers, and not every resolver knows
 * them, so they lead to the API's own host; the gateway finds the sandbox by the `Host` field.
 * @param domain `<sandbox id>.<base domain>[:port]`, or `<port>-…`
 */
export function serverOf(domain: string, { apiUrl, gatewayUrl }: Connection): HttpServer {
  if (gatewayUrl !== null) return { origin: new URL(gatewayUrl).origin, host: domain };
  const [name, port] = splitPort(domain);
  const api = new URL(apiUrl);
  const scheme = api.protocol;
  if (!name.endsWith('.localhost')) return { origin: `${scheme}//${domain}`, host: null };
  return { origin: `${scheme}//${api.hostname}${port}`, host: domain };
}

/** The URL that programs which resolve the sandbox's name open, as browsers do. */
export function publicUrl(domain: string, { apiUrl, gatewayUrl }: Connection): string {
  return `${new URL(gatewayUrl ?? apiUrl).protocol}//${domain}`;
}

function splitPort(domain: string): [name: string, port: string] {
  const [name, port] = domain.split(':');
  return [name!, port === undefined ? '' : `:${port}`];
}
