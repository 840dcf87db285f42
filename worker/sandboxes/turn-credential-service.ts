import http from 'node:http';
import type net from 'node:net';
import type { Logger } from 'pino';
import type { SandboxId } from '../../domain/ids.ts';
import { iceServers, turnCredential } from '../../domain/sandboxes/turn.ts';
import type { TurnSettings } from '../../platform/config/turn-settings.ts';

/** The maximum number of requests of one address per second. */
const requestsPerSecond = 20;
/** The maximum number of connections of one sandbox: enough for its programs, and too few to use up all connections. */
const connectionsPerSandbox = 8;
const maxConnections = 2048;
const clientTimeoutMs = 5000;

/**
 * Gives sandboxes of this host credentials for the TURN server: `GET /api/turn-credential`, with `?internal=1` for
 * peers that reach the server by its internal address. The source address identifies the sandbox, because the firewall
 * drops packets with any other source address. The secret stays in this process, which also runs the host's sandboxes,
 * so no request of a sandbox may end the process or block other sandboxes.
 */
export class TurnCredentialService {
  readonly #turn: TurnSettings;
  readonly #sandboxAt: (address: string) => Promise<SandboxId | null>;
  readonly #logger: Logger;
  readonly #server: http.Server;
  #asked = new Map<string, number>();
  #second = 0;
  readonly #connections = new Map<string, number>();

  constructor(deps: { turn: TurnSettings; sandboxAt(address: string): Promise<SandboxId | null>; logger: Logger }) {
    this.#turn = deps.turn;
    this.#sandboxAt = deps.sandboxAt;
    this.#logger = deps.logger;
    this.#server = http.createServer(
      { requestTimeout: clientTimeoutMs, headersTimeout: clientTimeoutMs, keepAliveTimeout: 1, maxHeaderSize: 8192 },
      (request, reply) => void this.#serve(request, reply),
    );
    this.#server.maxConnections = maxConnections;
    this.#server.setTimeout(clientTimeoutMs);
    this.#server.on('connection', (socket) => this.#limitConnections(socket));
  }

  /** @param address the address of this host for its sandboxes */
  async listen(address: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject).listen(this.#turn.servicePort, address, resolve);
    });
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(request: http.IncomingMessage, reply: http.ServerResponse): Promise<void> {
    try {
      const [status, body] = await this.#answer(request);
      reply.writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' });
      reply.end(JSON.stringify(body));
    } catch (error) {
      this.#logger.error({ err: error }, 'a TURN credential could not be made');
      if (reply.headersSent) {
        reply.destroy();
        return;
      }
      reply.writeHead(500, { 'Content-Type': 'application/json' });
      reply.end('{"error":"Something went wrong"}');
    }
  }

  #limitConnections(socket: net.Socket): void {
    const address = readAddress(socket);
    const open = this.#connections.get(address) ?? 0;
    if (open >= connectionsPerSandbox) {
      socket.destroy();
      return;
    }
    this.#connections.set(address, open + 1);
    socket.once('close', () => {
      const left = this.#connections.get(address)! - 1;
      if (left > 0) this.#connections.set(address, left);
      else this.#connections.delete(address);
    });
  }

  async #answer(request: http.IncomingMessage): Promise<[status: number, body: object]> {
    const address = readAddress(request.socket);
    const url = URL.parse(request.url ?? '', 'http://service');
    if (url?.pathname !== '/api/turn-credential') return [404, { error: 'Not found' }];
    if (request.method !== 'GET') return [405, { error: 'Method not allowed' }];
    if (this.#isTooMany(address)) return [429, { error: 'Too many requests' }];
    const sandboxId = await this.#sandboxAt(address);
    if (!sandboxId) return [403, { error: 'Only sandboxes are served' }];
    const { secret, credentialTtlSeconds: ttlSeconds, publicAddress, internalAddress } = this.#turn;
    const credential = turnCredential({ secret, sandboxId, ttlSeconds, now: new Date() });
    const server = url.searchParams.get('internal') === '1' ? internalAddress : publicAddress;
    return [200, { iceServers: iceServers(server, credential), ...credential, ttl: ttlSeconds }];
  }

  #isTooMany(address: string): boolean {
    const second = Math.floor(performance.now() / 1000);
    if (second !== this.#second) this.#asked.clear();
    this.#second = second;
    const asked = (this.#asked.get(address) ?? 0) + 1;
    this.#asked.set(address, asked);
    return asked > requestsPerSecond;
  }
}

function readAddress(socket: net.Socket): string {
  return socket.remoteAddress?.replace(/^::ffff:/, '') ?? '';
}

/** Environment variables with the addresses of this service and of the TURN server for programs in a sandbox. */
export function turnEnvironment(turn: TurnSettings, hostAddress: string): Record<string, string> {
  return {
    TURN_CREDENTIAL_SERVICE_URL: `http://${hostAddress}:${turn.servicePort}`,
    TURN_PUBLIC_HOST: turn.publicAddress.host,
    TURN_PUBLIC_PORT: String(turn.publicAddress.port),
    TURN_INTERNAL_HOST: turn.internalAddress.host,
    TURN_INTERNAL_PORT: String(turn.internalAddress.port),
  };
}
