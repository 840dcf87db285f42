import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { registryProgram } from '../../setup/toolchain/locations.mjs';
import { ChildProgram, type ProgramEnd, ProgramError, type ProgramHome, plainEnvironment } from './child-program.ts';
import { isSocketPath } from './socket-path.ts';

export interface EmbeddedRegistry {
  /** Resolves if it ends without a request to stop. */
  ended: Promise<ProgramEnd>;
  /** `127.0.0.1:<port>`, plain HTTP. */
  address: string;
  stop(): Promise<void>;
}

/** The time limit of a sweep. The control worker waits ten minutes for it. */
const sweepMs = 8 * 60_000;

/**
 * The socket on which the registry of a folder listens for `POST /sweep`. Undefined: the folder's path is too long for
 * a socket.
 */
export function sweepSocketIn(dir: string): string | undefined {
  const socket = path.join(dir, 'sweep.sock');
  return isSocketPath(socket) ? socket : undefined;
}

/**
 * Starts an OCI registry (CNCF Distribution) on loopback, Debian's or the one that set-up built. Its blobs are in the data folder.
 * @throws {ProgramError} when it does not become ready
 */
export async function startRegistry(options: {
  dir: string;
  home: ProgramHome;
  port: number;
}): Promise<EmbeddedRegistry> {
  fs.mkdirSync(options.dir, { recursive: true });
  const registry = new Registry(options);
  await registry.start();
  return registry;
}

const registryCommand = () => {
  const { program } = registryProgram();
  return fs.existsSync(program) ? program : 'docker-registry';
};

class Registry implements EmbeddedRegistry {
  readonly address: string;
  readonly ended: Promise<ProgramEnd>;
  readonly #dir: string;
  readonly #home: ProgramHome;
  readonly #reportEnd: (end: ProgramEnd) => void;
  #program: ChildProgram | undefined;
  #collector: ChildProgram | undefined;
  #control: http.Server | undefined;
  #sweep: Promise<void> | undefined;
  #isStopping = false;

  constructor({ dir, home, port }: { dir: string; home: ProgramHome; port: number }) {
    this.#dir = dir;
    this.#home = home;
    this.address = `127.0.0.1:${port}`;
    const { promise, resolve } = Promise.withResolvers<ProgramEnd>();
    this.ended = promise;
    this.#reportEnd = (end) => {
      // A running sweep must not start a program that the supervisor restarts.
      this.#isStopping = true;
      this.#control?.close();
      void this.#collector?.stop();
      resolve(end);
    };
  }

  async start(): Promise<void> {
    await this.#serve(false);
    const socket = sweepSocketIn(this.#dir);
    if (socket) this.#control = await listen(socket, () => this.sweep());
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#control?.close();
    this.#control?.closeAllConnections();
    await this.#collector?.stop();
    await this.#sweep?.catch(() => {});
    await this.#program?.stop();
  }

  /** Removes the blobs that belong to no image. The registry is read-only meanwhile. */
  sweep(): Promise<void> {
    this.#sweep ??= this.#sweepOnce().finally(() => {
      this.#sweep = undefined;
    });
    return this.#sweep;
  }

  async #sweepOnce(): Promise<void> {
    await this.#serveAgain(true);
    try {
      await this.#collect();
    } finally {
      // Also after a failed sweep. The new process has no cached information about blobs.
      if (!this.#isStopping) await this.#serveAgain(false);
    }
  }

  /** Keeps untagged images, because templates refer to images by digest. */
  async #collect(): Promise<void> {
    if (this.#isStopping) return;
    this.#collector = await ChildProgram.start({
      name: 'registry-sweep',
      command: registryCommand(),
      args: ['garbage-collect', this.#writeConfig(true)],
      home: this.#home,
    });
    const timer = setTimeout(() => void this.#collector?.stop(), sweepMs);
    const { code, signal } = await this.#collector.ended;
    clearTimeout(timer);
    const tail = this.#collector.logTail();
    this.#collector = undefined;
    if (code !== 0)
      throw new ProgramError(`The sweep of the registry ended with ${signal ?? `code ${code}`}:\n${tail}`);
  }

  async #serveAgain(isReadOnly: boolean): Promise<void> {
    const former = this.#program;
    this.#program = undefined;
    await former?.stop();
    if (!this.#isStopping) await this.#serve(isReadOnly);
  }

  async #serve(isReadOnly: boolean): Promise<void> {
    const program = await ChildProgram.start({
      name: 'registry',
      command: registryCommand(),
      args: ['serve', this.#writeConfig(isReadOnly)],
      home: this.#home,
      // Version 3 sends traces by default, to a port of this machine that may belong to another program.
      env: { ...plainEnvironment(), OTEL_TRACES_EXPORTER: 'none' },
    });
    this.#program = program;
    void program.ended.then((end) => {
      if (this.#program === program) this.#reportEnd(end);
    });
    await program.whenReady(async () => {
      const reply = await fetch(`http://${this.address}/v2/`);
      if (!reply.ok) throw new Error(`registry answers ${reply.status}`);
    });
  }

  #writeConfig(isReadOnly: boolean): string {
    const file = path.join(this.#dir, isReadOnly ? 'read-only.json' : 'config.json');
    // JSON is a subset of YAML.
    const config = {
      version: '0.1',
      log: { level: 'warn', accesslog: { disabled: true } },
      storage: {
        filesystem: { rootdirectory: path.join(this.#dir, 'blobs') },
        delete: { enabled: true },
        cache: { blobdescriptor: 'inmemory' },
        maintenance: {
          readonly: { enabled: isReadOnly },
          // Uploads that an import or a build did not end; an attempt lasts at most two hours.
          uploadpurging: { enabled: true, age: '3h', interval: '1h', dryrun: false },
        },
      },
      http: { addr: this.address },
    };
    fs.writeFileSync(file, JSON.stringify(config));
    return file;
  }
}

async function listen(socket: string, sweep: () => Promise<void>): Promise<http.Server> {
  fs.rmSync(socket, { force: true });
  const server = http.createServer((request, reply) => {
    if (request.method !== 'POST' || request.url !== '/sweep') {
      reply.writeHead(404).end();
      return;
    }
    sweep().then(
      () => reply.writeHead(204).end(),
      (error: Error) => reply.writeHead(500).end(error.message),
    );
  });
  // A sweep takes longer than Node's default timeouts.
  server.requestTimeout = 0;
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socket, resolve));
  return server;
}
