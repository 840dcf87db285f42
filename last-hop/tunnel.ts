import type net from 'node:net';
import tls from 'node:tls';
import { identityIn, type LastHopTarget, prefaceOf } from '../domain/last-hop.ts';
import type { Credential } from './credential.ts';

const keepAliveProbeMs = 10_000;

/** All that a connection to a sandbox of another machine takes. */
export interface TunnelPlace {
  hostId: string;
  /** `host:port` of that machine's last hop. */
  address: string;
  /** Of this process. */
  credential: Credential;
}

/**
 * Connects to a port of a sandbox through its machine's gateway. What is written before the connection is there follows
 * the first line. The machine has to show a certificate of that host; otherwise the socket fails before anything is
 * sent.
 * @param onread as of `net.connect`
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
    // No name of a machine is in these certificates: the host's identity counts, wherever it is.
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
  socket.write(prefaceOf(target), 'latin1');
  return socket;
}
