import net from 'node:net';
import { lastHopReplies } from '../../domain/hosts/last-hop.ts';
import type { SandboxId } from '../../domain/ids.ts';
import { loopbackHead, loopbackReply } from '../../domain/loopback-connection.ts';
import { openTunnel, type TunnelPlace } from '../last-hop/tunnel.ts';

const keepaliveProbeDelayMs = 30_000;

/** There is no connection, and the request was not sent. */
export class SandboxUnreachable extends Error {
  override name: string = 'SandboxUnreachable';
}

/** No server in the sandbox listens on the port. */
export class PortClosed extends SandboxUnreachable {
  override name = 'PortClosed';
}

/** A way to open a connection to a port of a sandbox. */
export interface Opening {
  /** @param onread as for `net.connect` */
  open(onread?: net.OnReadOpts): net.Socket;
  /** The text that arrives before the first byte of the server. Empty: the server's own bytes come first. */
  reply: string;
}

/** A place of a sandbox. `tunnel`: through the sandbox's machine; null: its address is reached directly. */
export interface SandboxPlace {
  sandboxId: SandboxId;
  address: string;
  tunnel: TunnelPlace | null;
}

/** Opens a connection to the port at the sandbox's address. */
export function directOpening({ sandboxId, address, tunnel }: SandboxPlace, port: number): Opening {
  if (tunnel) {
    const target = { sandboxId, port, wantsReply: true };
    return { open: (onread) => openTunnel(tunnel, target, onread ? { onread } : {}), reply: lastHopReplies.connected };
  }
  return {
    open: (onread) =>
      net.connect({
        host: address,
        port,
        noDelay: true,
        keepAlive: true,
        keepAliveInitialDelay: keepaliveProbeDelayMs,
        ...(onread && { onread }),
      }),
    reply: '',
  };
}

/** Opens a connection, through the sandbox's agent, to a server that listens on a loopback address there. */
export function loopbackOpening(
  place: SandboxPlace,
  port: number,
  agent: { port: number; platformToken: string },
): Opening {
  const { open, reply } = directOpening(place, agent.port);
  return {
    open(onread) {
      const socket = open(onread);
      socket.write(loopbackHead(port, agent.platformToken), 'latin1');
      return socket;
    },
    reply: `${reply}${loopbackReply}`,
  };
}

/**
 * Whether the whole reply of an opening has arrived.
 * @throws {PortClosed} when no server listens; {SandboxUnreachable} for any other reply
 */
export function isReplyComplete(expected: string, received: string): boolean {
  if (received === expected) return true;
  if (expected.startsWith(received)) return false;
  if (received === lastHopReplies.refused) throw new PortClosed('nothing listens there');
  throw new SandboxUnreachable('the connection was refused');
}

/** Why a connection could not be opened. */
export function openingFailure(error: Error): SandboxUnreachable {
  if (error instanceof SandboxUnreachable) return error;
  if ('code' in error && error.code === 'ECONNREFUSED') return new PortClosed('nothing listens there');
  return new SandboxUnreachable('the connection was not made', { cause: error });
}
