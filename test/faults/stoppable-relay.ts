import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

const program = `
  const net = require('node:net');
  const { hostname, port } = new URL('tcp://' + process.argv[1]);
  const server = net.createServer((from) => {
    const to = net.connect(port, hostname);
    from.pipe(to).pipe(from);
    from.on('error', () => to.destroy());
    to.on('error', () => from.destroy());
  });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));`;

/** A process on loopback in front of a server. While it is stopped, the server hangs: the kernel accepts connections and bytes. */
export class StoppableRelay {
  /** `127.0.0.1:<port>` */
  readonly address: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, address: string) {
    this.#child = child;
    this.address = address;
  }

  /** @param target `host:port` of the server */
  static async start(target: string): Promise<StoppableRelay> {
    const child = spawn(process.execPath, ['--eval', program, target], {
      env: { PATH: process.env.PATH },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [port] = await once(child.stdout, 'data');
    return new StoppableRelay(child, `127.0.0.1:${String(port).trim()}`);
  }

  get pid(): number {
    return this.#child.pid!;
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}
