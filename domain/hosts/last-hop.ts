import type { SandboxId } from '../ids.ts';

/**
 * The last hop is the connection from a gateway or an API to the machine of a sandbox, and the gateway of that machine
 * connects to the sandbox. It uses mutual TLS, then one line, then the unchanged bytes of the sandbox's connection.
 */

/** `host`: a host's gateway, which accepts connections. `gateway`: a gateway or an API, which connects. */
export type LastHopRole = 'host' | 'gateway';

export interface LastHopIdentity {
  role: LastHopRole;
  /** The id of a host, or any name of a gateway. */
  name: string;
}

/** The identity as a URI, the only subject alternative name of its certificate. */
export function formatUri({ role, name }: LastHopIdentity): string {
  const escaped = encodeURIComponent(name).replace(/[!'()*]/g, (each) => `%${each.charCodeAt(0).toString(16)}`);
  return `spiffe://sandbox-platform/${role}/${escaped}`;
}

/** The identity in a certificate's `subjectAltName` (`URI:…`). Null when it has no identity or more than one. */
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

/** The target of a connection. */
export interface LastHopTarget {
  sandboxId: SandboxId;
  port: number;
  /**
   * The host answers with one byte: connected, or why not. Without a reply it closes a connection that it cannot make.
   */
  wantsReply: boolean;
}

/** The longest first line, including its end. */
export const maxPrefaceBytes = 128;

/** The one byte of a reply. */
export const lastHopReplies = {
  connected: '+',
  /** The sandbox does not run on this host, or this host was declared lost. */
  notHere: 'n',
  /** No process listens on that port of the sandbox. */
  refused: 'r',
} as const;

export function formatPreface({ sandboxId, port, wantsReply }: LastHopTarget): string {
  return `SANDBOX/1 ${sandboxId} ${port} ${wantsReply ? 'reply' : 'plain'}\n`;
}

/** @param line the first line without its end. @returns null when it is malformed */
export function readPreface(line: string): LastHopTarget | null {
  const [, sandboxId, port, mode] = /^SANDBOX\/1 (sbx-[a-z0-9-]{1,63}) ([1-9]\d{0,4}) (reply|plain)$/.exec(line) ?? [];
  if (!sandboxId || Number(port) > 65535) return null;
  return { sandboxId: sandboxId as SandboxId, port: Number(port), wantsReply: mode === 'reply' };
}
