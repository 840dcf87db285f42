import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { gzipSync } from 'node:zlib';
import { flood } from './flood.ts';

/**
 * An S3 server that a tenant could name: it accepts every key, and the bucket's name says how it attacks the client.
 * A bucket whose name begins with `late-` behaves until its root folder is listed.
 */
export class HostileStorage {
  readonly #child: ChildProcess;
  readonly port: number;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  /** @param redirectTo the target of the redirects of the bucket `redirect` */
  static async start(redirectTo = 'http://127.0.0.1:1'): Promise<HostileStorage> {
    const child = spawn(process.execPath, [import.meta.filename, redirectTo], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [port] = (await once(createInterface(child.stdout!), 'line')) as [string];
    return new HostileStorage(child, Number(port));
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

const emptyListing =
  '<?xml version="1.0"?><ListBucketResult><Name>b</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>';
const entry = Buffer.from('<Contents><Key>k</Key><Size>1</Size><ETag>"e"</ETag></Contents>'.repeat(1000));

function serve(redirectTo: string): void {
  const bomb = gzipSync(Buffer.alloc(256 * 1024 * 1024));
  const attacks: Record<string, (response: http.ServerResponse) => void> = {
    endless(response) {
      response.writeHead(200, { 'content-type': 'application/xml' });
      response.write('<?xml version="1.0"?><ListBucketResult>');
      flood(response, entry);
    },
    headers({ socket }) {
      socket!.write('HTTP/1.1 200 OK\r\n');
      flood(socket!, Buffer.from(`X-Flood: ${'a'.repeat(60_000)}\r\n`));
    },
    slow(response) {
      response.writeHead(200);
      const timer = setInterval(() => response.write('<'), 1000);
      response.on('close', () => clearInterval(timer));
    },
    redirect(response) {
      response.writeHead(307, { location: redirectTo }).end();
    },
    gzip(response) {
      response.writeHead(200, { 'content-type': 'application/xml', 'content-encoding': 'gzip' }).end(bomb);
    },
  };
  const server = http.createServer((request, response) => {
    response.on('error', () => response.destroy());
    const url = new URL(request.url!, 'http://storage');
    const [, late, name = ''] = /^\/(late-)?([a-z]+)/.exec(url.pathname) ?? [];
    // While it mounts, s3fs 1.95 asks with a limit of two whether the folder has files.
    const isListing = url.searchParams.has('delimiter') && url.searchParams.get('max-keys') !== '2';
    const attack = attacks[name];
    if (attack && (!late || isListing)) attack(response);
    else if (request.method === 'GET') response.writeHead(200, { 'content-type': 'application/xml' }).end(emptyListing);
    else response.writeHead(404).end();
  });
  server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
}

/** Counts the connections that it gets. */
export class Canary {
  readonly #server = net.createServer((socket) => {
    this.connections += 1;
    socket.destroy();
  });
  connections = 0;

  static async start(address = '127.0.0.1', port = 0): Promise<Canary> {
    const canary = new Canary();
    await new Promise<void>((resolve, reject) => canary.#server.once('error', reject).listen(port, address, resolve));
    return canary;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

if (process.argv[1] === import.meta.filename) serve(process.argv[2]!);
