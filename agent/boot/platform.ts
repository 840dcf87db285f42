import type { IncomingMessage, ServerResponse } from 'node:http';
import type net from 'node:net';
import { sameSecret } from '../http/access.ts';
import { readJson, replyJson as reply } from '../http/json-exchange.ts';
import { joinLoopback, loopbackPort, refuse } from '../http/loopback.ts';
import type { RequestListener } from '../http/request-listener.ts';
import { SandboxCommand, spawnWords } from './command.ts';
import type { AgentEnvironment } from './environment.ts';
import { writeHostname } from './hostname.ts';
import { parseCommand, parseInit, parsePlatformToken, type SandboxInit, type SandboxState } from './sandbox-state.ts';

/** The paths that are only for the platform: boot, state of the command, readiness probes. See BOOT.md. */
export class PlatformPaths {
  readonly #state: SandboxState;
  readonly #environment: AgentEnvironment;
  readonly #tailFile: string;
  readonly #serveExec: RequestListener;
  #command: SandboxCommand | null = null;

  /** @param serveExec serves `/platform/exec…`. It is loaded on first use. */
  constructor(state: SandboxState, environment: AgentEnvironment, tailFile: string, serveExec: RequestListener) {
    this.#state = state;
    this.#environment = environment;
    this.#tailFile = tailFile;
    this.#serveExec = serveExec;
  }

  /** Sets the sandbox's id and starts its command. */
  initialise(init: SandboxInit): void {
    if (init.hostname !== undefined) writeHostname(init.hostname);
    this.#state.init = init;
    if (init.command) this.#command = new SandboxCommand(init, this.#environment, this.#tailFile);
  }

  /** Serves `/platform/…`. Without the platform's token the reply is that of an unknown path. */
  async serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (!this.#isPlatform(req)) {
      reply(req, res, 404, { message: 'not found' });
      return;
    }
    if (req.url!.startsWith('/platform/exec')) return this.#serveExec(req, res);
    const route = `${req.method} ${req.url}`;
    try {
      if (route === 'POST /platform/init') this.#serveInit(req, res, await readJson(req));
      else if (route === 'GET /platform/state') {
        reply(req, res, 200, {
          sandboxId: this.#state.init?.sandboxId ?? null,
          command: this.#command?.state() ?? null,
        });
      } else if (route === 'POST /platform/probe') await this.#serveProbe(req, res, await readJson(req));
      else reply(req, res, 404, { message: 'not found' });
    } catch (error) {
      if (error instanceof TypeError || error instanceof SyntaxError) reply(req, res, 400, { message: error.message });
      else throw error;
    }
  }

  /** Serves `CONNECT localhost:<port>`: a connection to a server that listens on a loopback address. */
  serveConnect(req: IncomingMessage, client: net.Socket, firstBytes: Buffer): void {
    const port = this.#isPlatform(req) ? loopbackPort(req.url!) : null;
    if (port === null) refuse(client, '404 Not Found');
    else void joinLoopback(client, port, firstBytes);
  }

  #isPlatform(req: IncomingMessage): boolean {
    const token = req.headers['x-platform-token'];
    const { platformToken } = this.#state;
    return platformToken !== null && typeof token === 'string' && sameSecret(token, platformToken);
  }

  #serveInit(req: IncomingMessage, res: ServerResponse, body: unknown): void {
    const [init, ownToken] = [parseInit(body), parsePlatformToken(body)];
    if (this.#state.init && this.#state.init.sandboxId !== init.sandboxId) {
      reply(req, res, 409, { message: 'this agent already serves another sandbox' });
      return;
    }
    if (!this.#state.init) {
      this.initialise(init);
      if (ownToken !== undefined) this.#state.platformToken = ownToken;
    }
    res.writeHead(204).end();
  }

  async #serveProbe(req: IncomingMessage, res: ServerResponse, body: unknown): Promise<void> {
    const { command, timeoutSeconds } = (body ?? {}) as { command?: unknown; timeoutSeconds?: unknown };
    const words = parseCommand(command);
    if (timeoutSeconds !== undefined && !(Number(timeoutSeconds) > 0))
      throw new TypeError('timeoutSeconds must be positive');
    const child = spawnWords({ words, cwd: this.#state.init?.cwd, user: this.#state.init?.user }, this.#environment);
    child.stdout!.resume();
    child.stderr!.resume();
    const exitCode = await new Promise<number>((resolve) => {
      const deadline = setTimeout(
        () => {
          if (child.pid) process.kill(-child.pid, 'SIGKILL');
          resolve(124);
        },
        Number(timeoutSeconds ?? 1) * 1000,
      );
      child.once('error', () => {
        clearTimeout(deadline);
        resolve(127);
      });
      child.once('exit', (code) => {
        clearTimeout(deadline);
        resolve(code ?? 137);
      });
    });
    reply(req, res, 200, { exitCode });
  }
}
