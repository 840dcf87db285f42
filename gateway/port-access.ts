import type { SandboxRoute } from './routes.ts';
import { isQuerySigned, type SignedOperation, secretsEqual } from './signed-query.ts';

/** The port of E2B's code interpreter, and the agent's path for it. */
const interpreterPort = 49999;
const interpreterPath = '/interpreter';

/** The destination of a request inside the sandbox, and the credential that it needs. */
export type PortAccess =
  /** The agent checks the token of its requests. `pathPrefix`: where it serves the port. */
  | { kind: 'agent'; port: number; pathPrefix: '' | typeof interpreterPath }
  | { kind: 'public'; port: number }
  /** `requestedPort` is the port in the host name. Signatures contain this port. */
  | { kind: 'token'; port: number; requestedPort: number }
  | { kind: 'not_http' };

/**
 * The sandbox's port that a request for `requestedPort` reaches (null: the agent), and whether it needs the token. A
 * declared port is public unless it is `is_protected`. An undeclared port needs the token if the sandbox is `secure` and
 * its ports are not public. A declared port with the agent's port as its target counts as the agent. The agent also
 * serves the code interpreter of E2B's clients, at an undeclared port of its own.
 */
export function portAccess(route: SandboxRoute, requestedPort: number | null): PortAccess {
  const agent = { kind: 'agent', port: route.agentPort, pathPrefix: '' } as const;
  if (requestedPort === null) return agent;
  const declared = route.ports.filter((port) => port.port === requestedPort);
  const http = declared.find((port) => port.protocol !== 'UDP');
  const port = http?.servicePort ?? requestedPort;
  if (port === route.agentPort || requestedPort === route.agentPort) return agent;
  if (declared.length > 0 && !http) return { kind: 'not_http' };
  if (!http && port === interpreterPort) return { ...agent, pathPrefix: interpreterPath };
  const needsToken = http ? http.isProtected : route.secure && !route.publicPorts;
  return needsToken ? { kind: 'token', port, requestedPort } : { kind: 'public', port };
}

/**
 * Whether a request may use a port that needs the token, by `X-Access-Token` or by a signed query.
 * @param request its `port` is the port in the host name
 */
export function isPortAuthorized(
  route: SandboxRoute,
  request: { port: number; accessToken: string | null; target: string; method: string; isWebSocket: boolean },
): boolean {
  if (!route.accessToken) return false;
  if (request.accessToken !== null) return secretsEqual(request.accessToken, route.accessToken);
  const reads = ['GET', 'HEAD', 'OPTIONS'].includes(request.method) && !request.isWebSocket;
  const needed: SignedOperation = reads ? 'read' : 'write';
  const { target, port } = request;
  return isQuerySigned({ target, port, sandboxId: route.sandboxId }, needed, route.accessToken, Date.now());
}
