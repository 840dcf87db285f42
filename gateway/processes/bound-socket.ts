import { lookup } from 'node:dns/promises';
import net from 'node:net';
import { getSystemErrorName } from 'node:util';

/** Node's internal handle of a TCP socket. It can be sent to child processes, and `net.Server` can listen on it. */
export interface SocketHandle {
  getsockname(address: { address?: string; port?: number }): number;
  close(): void;
}

/**
 * The class that `node:cluster` uses to bind its sockets. Node has no public API to bind a socket without accepting
 * from it.
 */
const { _createServerHandle: bindHandle } = net as unknown as {
  _createServerHandle(address: string, port: number, family: number): SocketHandle | number;
};

/**
 * A bound TCP socket on which this process does not accept connections. While the socket is open, connections wait in
 * the kernel's queue if no other process accepts them.
 */
export class BoundSocket {
  readonly handle: SocketHandle;
  readonly host: string;
  readonly port: number;

  private constructor(handle: SocketHandle, host: string, port: number) {
    this.handle = handle;
    this.host = host;
    this.port = port;
  }

  /** Rejects when the address is in use or does not belong to this machine. */
  static async bind(host: string, port: number): Promise<BoundSocket> {
    const { address, family } = await lookup(host);
    const handle = bindHandle(address, port, family);
    if (typeof handle === 'number') throw bindError(handle, host, port);
    const bound: { address?: string; port?: number } = {};
    // An address in use is only reported by this call.
    const error = handle.getsockname(bound);
    if (error === 0) return new BoundSocket(handle, bound.address!, bound.port!);
    handle.close();
    throw bindError(error, host, port);
  }

  close(): void {
    this.handle.close();
  }
}

function bindError(error: number, host: string, port: number): Error {
  return new Error(`cannot bind ${host}:${port}: ${getSystemErrorName(error)}`);
}
