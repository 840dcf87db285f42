import type { SandboxId } from './ids.ts';

/**
 * The last hop: the connection from a gateway or an API to the machine of a sandbox, whose own gateway connects to the
 * sandbox. Mutual TLS, then one line, then the bytes of the sandbox's connection as they are.
 */

/** `host`: a host's gateway, which accepts; `gateway`: a gateway or an API, which connects. */
export type LastHopRole = 'host' | 'gateway';

export interface LastHopIdentity {
  role: LastHopRole;
  /** Of a host its id; of a gateway any name. */
  name: string;
}

/** The identity as a URI, the only subject alternative name of its certificate. */
export function uriOf({ role, name }: LastHopIdentity): string {
  const escaped = encodeURIComponent(name).replace(/[!'()*]/g, (each) => `%${each.charCodeAt(0).toString(16)}`);
  return `spiffe://sandbox-platform/${role}/${escaped}`;
}

/** The identity that a certificate's `subjectAltName` (`URI:…`) names; null when it names no single one. */
export function identityIn(subjectAltName: string | undefined): LastHopIdentity | null {
  const [, role, name] =
    /^URI:spiffe:\/\/sandbox-platform\/(host|gateway)\/([\w.~%-]{1,384})$/.exec(subjectAltName ?? '') ?? [];
  if (!role || !name) return null;
  try {
    return { role: role as LastHopRole, name: decodeURIComponent(name) };
  } catch {
    return null;
  }
}

/** What a connection is for. */
export interface LastHopTarget {
  sandboxId: SandboxId;
  port: number;
  /** The host says by one byte that it has connected, or why not; otherwise it just closes what it cannot connect. */
  wantsReply: boolean;
}

/** Longest first line, its end included. */
export const maxPrefaceBytes = 128;

/** The one byte of a reply. */
export const lastHopReplies = {
  connected: '+',
  /** This host has no such sandbox running, or has been given up. */
  notHere: 'n',
  /** Nothing answers on that port of the sandbox. */
  refused: 'r',
} as const;

export function prefaceOf({ sandboxId, port, wantsReply }: LastHopTarget): string {
  return `SANDBOX/1 ${sandboxId} ${port} ${wantsReply ? 'reply' : 'plain'}\n`;
}

/** @param line without its end. @returns null when it is malformed */
export function readPreface(line: string): LastHopTarget | null {
  const [, sandboxId, port, mode] = /^SANDBOX\/1 (sbx-[a-z0-9-]{1,63}) ([1-9]\d{0,4}) (reply|plain)$/.exec(line) ?? [];
  if (!sandboxId || Number(port) > 65535) return null;
  return { sandboxId: sandboxId as SandboxId, port: Number(port), wantsReply: mode === 'reply' };
}
