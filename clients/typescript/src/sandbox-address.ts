import type { Connection } from './connection-options.ts';
import type { HttpServer } from './http-exchange.ts';

type SandboxPlace = Pick<Connection, 'apiUrl' | 'gatewayUrl'>;

/**
 * The address for requests to a sandbox. Names below `.localhost` mean the local machine, and some resolvers do not
 * know them, so these requests go to the API's own host. The gateway finds the sandbox by the `Host` field.
 * @param domain `<sandbox id>.<base domain>[:port]`, or `<port>-…`
 */
export function resolveServer(domain: string, { apiUrl, gatewayUrl }: SandboxPlace): HttpServer {
  if (gatewayUrl !== null) return { origin: new URL(gatewayUrl).origin, host: domain };
  const [name, port] = splitPort(domain);
  const api = new URL(apiUrl);
  const scheme = api.protocol;
  if (!name.endsWith('.localhost')) return { origin: `${scheme}//${domain}`, host: null };
  return { origin: `${scheme}//${api.hostname}${port}`, host: domain };
}

/** The URL for programs that can resolve the sandbox's name, such as browsers. */
export function publicUrl(domain: string, { apiUrl, gatewayUrl }: SandboxPlace): string {
  return `${new URL(gatewayUrl ?? apiUrl).protocol}//${domain}`;
}

function splitPort(domain: string): [name: string, port: string] {
  const [name, port] = domain.split(':');
  return [name!, port === undefined ? '' : `:${port}`];
}
