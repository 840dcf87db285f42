import { createHmac } from 'node:crypto';
import type { SandboxId } from '../ids.ts';

/** The address of a TURN server for clients. */
export interface TurnAddress {
  host: string;
  port: number;
}

export interface TurnCredential {
  /** `<Unix expiry in seconds>:<sandbox id>`. */
  username: string;
  /** Base64 of the HMAC-SHA1 of `username`. */
  credential: string;
}

/** An entry of `RTCConfiguration.iceServers`. */
export interface IceServer extends TurnCredential {
  urls: string[];
}

/**
 * A credential that a TURN server with the same shared secret accepts until it expires (the TURN REST scheme, coturn's
 * `use-auth-secret`). The platform does not contact the server.
 */
export function turnCredential(options: {
  secret: string;
  sandboxId: SandboxId;
  ttlSeconds: number;
  now: Date;
}): TurnCredential {
  const expiry = Math.floor(options.now.getTime() / 1000) + options.ttlSeconds;
  const username = `${expiry}:${options.sandboxId}`;
  return { username, credential: createHmac('sha1', options.secret).update(username).digest('base64') };
}

/** The ICE configuration of a WebRTC peer. */
export function iceServers({ host, port }: TurnAddress, { username, credential }: TurnCredential): IceServer[] {
  const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const urls = [`stun:${authority}`, ...['udp', 'tcp'].map((transport) => `turn:${authority}?transport=${transport}`)];
  return [{ urls, username, credential }];
}
