import net from 'node:net';
import tls from 'node:tls';
import type { Connections } from './http-forwarding.ts';
import { Http1Connection } from './http1-connection.ts';
import { isFit } from './pool.ts';

const maxIdle = 64;
const keepaliveProbeDelayMs = 30_000;

/** Connections to the API. Idle ones are kept until the API closes them. */
export class ApiConnections implements Connections {
  readonly #url: URL;
  /** The longest idle connection is first. */
  readonly #idle: Http1Connection[] = [];
  #isClosed = false;

  constructor(url: URL) {
    this.#url = url;
  }

  async acquire(need: 'replayable' | 'once' | 'fresh'): Promise<Http1Connection> {
    while (need !== 'fresh' && this.#idle.length > 0) {
      const latest = this.#idle.at(-1)!;
      const fit = isFit(latest, need);
      if (fit === 'later') break;
      this.#idle.pop();
      if (fit === 'now') return latest;
      latest.destroy();
    }
    const connection = await Http1Connection.connect(this.#url.host, {
      open: (onread) => this.#open(onread),
      reply: '',
    });
    connection.onClosed = () => this.#forget(connection);
    return connection;
  }

  release(connection: Http1Connection): void {
    if (this.#isClosed || !connection.isReusable) {
      connection.destroy();
      return;
    }
    connection.detach();
    this.#idle.push(connection);
    if (this.#idle.length > maxIdle) this.#idle.shift()?.destroy();
  }

  close(): void {
    this.#isClosed = true;
    for (const connection of this.#idle.splice(0)) connection.destroy();
  }

  #open(onread?: net.OnReadOpts): net.Socket {
    const { protocol, hostname, port } = this.#url;
    const host = hostname.replace(/^\[|\]$/g, '');
    const common = { host, ...(onread && { onread }) };
    const secure: tls.ConnectionOptions = { ...common, port: Number(port || 443) };
    const socket =
      protocol === 'https:'
        ? tls.connect(net.isIP(host) ? secure : { ...secure, servername: host })
        : net.connect({ ...common, port: Number(port || 80) });
    return socket.setNoDelay(true).setKeepAlive(true, keepaliveProbeDelayMs);
  }

  #forget(connection: Http1Connection): void {
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }
}
