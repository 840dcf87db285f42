import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { Transform } from 'node:stream';

/** The faults that a front adds to blobs. */
export interface BlobFault {
  /** Closes the connection after so many bytes of a blob. */
  cutAfter?: number;
  /** Stops sending after so many bytes of a blob, until the front gets another fault. */
  stallsAfter?: number;
  /** Changes the first byte of layers. */
  lies?: boolean;
  /** Sends so many extra bytes after a blob. */
  appends?: number;
}

/**
 * A proxy in front of a real registry that can ask for a password or a token, redirect, close connections, be slow, or
 * return wrong bytes. By default it forwards everything.
 */
export class RegistryFront {
  /** Host and port. */
  readonly address: string;
  /** `<method> <path>` of the received requests. */
  readonly asked: string[] = [];
  /** Bytes of blobs that were sent. */
  bytesSent = 0;
  password: { username: string; password: string } | null = null;
  /** The address that issues tokens. `own`: this server does, for the password. */
  realm: string | null = null;
  /** The address to which requests of blobs are redirected. */
  redirectTo: string | null = null;
  fault: BlobFault = {};
  readonly #server: http.Server;
  readonly #target: string;

  private constructor(server: http.Server, target: string) {
    this.#server = server;
    this.#target = target;
    this.address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /**
   * @param target `host:port` of the registry
   * @param port 0: any
   */
  static async start(target: string, tls?: https.ServerOptions, port = 0): Promise<RegistryFront> {
    let front: RegistryFront | undefined;
    const answer: http.RequestListener = (request, reply) => front!.#answer(request, reply);
    const server = tls ? https.createServer(tls, answer) : http.createServer(answer);
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    front = new RegistryFront(server, target);
    return front;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(request: http.IncomingMessage, reply: http.ServerResponse): void {
    const path = request.url!;
    this.asked.push(`${request.method} ${path}`);
    const basic =
      this.password && `Basic ${Buffer.from(`${this.password.username}:${this.password.password}`).toString('base64')}`;
    if (path.startsWith('/token')) {
      const isKnown = !basic || request.headers.authorization === basic;
      reply.writeHead(isKnown ? 200 : 401).end(isKnown ? JSON.stringify({ token: 'a.b.c' }) : '');
      return;
    }
    const wanted = this.realm ? 'Bearer a.b.c' : basic;
    if (wanted && request.headers.authorization !== wanted) {
      const realm = this.realm === 'own' ? `http://${this.address}/token` : this.realm;
      const challenge = realm ? `Bearer realm="${realm}",service="test"` : 'Basic realm="test"';
      reply.writeHead(401, { 'www-authenticate': challenge }).end();
      return;
    }
    if (this.redirectTo && path.includes('/blobs/')) {
      reply.writeHead(307, { location: `${this.redirectTo}${path}` }).end();
      return;
    }
    this.#pass(request, reply);
  }

  #pass(request: http.IncomingMessage, reply: http.ServerResponse): void {
    const [host, port] = this.#target.split(':');
    const { authorization: _own, host: asked, ...others } = request.headers;
    const proto = this.#server instanceof https.Server ? 'https' : 'http';
    const headers = { ...others, 'x-forwarded-host': asked, 'x-forwarded-proto': proto };
    const sent = http.request({ host, port, path: request.url!, method: request.method!, headers }, (upstream) => {
      const isBlob = request.method === 'GET' && request.url!.includes('/blobs/');
      const { 'content-length': length, ...others } = upstream.headers;
      reply.writeHead(upstream.statusCode!, isBlob && this.fault.appends ? others : upstream.headers);
      upstream.pipe(isBlob ? this.#faulty(reply, Number(length)) : reply);
      if (isBlob) reply.on('close', () => upstream.destroy());
    });
    sent.on('error', () => reply.destroy());
    request.pipe(sent);
  }

  #faulty(reply: http.ServerResponse, size: number): Transform {
    const { fault } = this;
    let passed = 0;
    const through = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        const bytes =
          fault.lies && passed === 0 && size > 10_000
            ? Buffer.concat([Buffer.from([chunk[0]! ^ 1]), chunk.subarray(1)])
            : chunk;
        passed += bytes.length;
        if (fault.cutAfter !== undefined && passed > fault.cutAfter) {
          this.bytesSent += bytes.length;
          reply.destroy();
          return;
        }
        const pass = () => {
          const isStalled = fault === this.fault && passed > (fault.stallsAfter ?? Number.POSITIVE_INFINITY);
          if (isStalled && !reply.destroyed) setTimeout(pass, 20);
          else {
            if (!reply.destroyed) this.bytesSent += bytes.length;
            done(null, bytes);
          }
        };
        pass();
      },
      flush: (done) => {
        const left = size > 10_000 ? (fault.appends ?? 0) : 0;
        this.bytesSent += left;
        done(null, Buffer.alloc(left));
      },
    });
    through.pipe(reply);
    return through;
  }
}
