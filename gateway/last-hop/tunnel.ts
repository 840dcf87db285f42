import type net from 'node:net';
import tls from 'node:tls';
import { formatPreface, identityIn, type LastHopTarget } from '../../domain/hosts/last-hop.ts';
import type { Credential } from './credential.ts';

const keepAliveProbeMs = 10_000;

/** The parameters of a connection to a sandbox of another machine. */
export interface TunnelPlace {
  hostId: string;
  /** `host:port` of that machine's last hop. */
  address: string;
  /** The credential of this process. */
  credential: Credential;
}

/**
 * Connects to a port of a sandbox through its machine's gateway. Data that is written before the connection is open
 * follows the first line. The machine must show a certificate of that host. Otherwise the socket fails before any data
 * is sent.
 * @param onread as for `net.connect`
 */
export function openTunnel(
  { hostId, address, credential }: TunnelPlace,
  target: LastHopTarget,
  options: Pick<net.TcpNetConnectOpts, 'onread'> = {},
): tls.TLSSocket {
  const [, host = '', port = ''] = /^\[?([^\]]*)\]?:(\d+)$/.exec(address) ?? [];
  const connecting: tls.ConnectionOptions & Pick<net.TcpNetConnectOpts, 'onread'> = {
    ...options,
    host,
    port: Number(port),
    minVersion: 'TLSv1.3',
    key: credential.key,
    cert: credential.certificate,
    ca: credential.authority,
    // The certificates contain no names of machines. Only the host's identity is checked, at any address.
    servername: '',
    checkServerIdentity: (_name, certificate) => {
      const identity = identityIn(certificate.subjectaltname);
      if (identity?.role === 'host' && identity.name === hostId) return undefined;
      return new Error('the machine there is not the host of the sandbox');
    },
  };
  const socket = tls.connect(connecting);
  socket.setNoDelay(true);
  socket.setKeepAlive(true, keepAliveProbeMs);
  socket.write(formatPreface(target), 'latin1');
  return socket;
}
