import { createHmac, timingSafeEqual } from 'node:crypto';
import type { LastHopIdentity, LastHopRole } from '../../domain/hosts/last-hop.ts';

/**
 * Allows one machine to get certificates of one identity. The token is never transmitted: a request contains an HMAC
 * with its key. It also identifies the authority, so that no reply can introduce another one.
 */
export interface JoinToken extends LastHopIdentity {
  /** 32 bytes that only the authority can derive for this identity. */
  key: Buffer;
  /** SHA-256 of the authority's public key (SPKI). */
  authorityDigest: Buffer;
}

const form = /^(host|gateway)\.([\w-]{1,171})\.([\w-]{43})\.([\w-]{43})$/;

export function writeJoinToken({ role, name, key, authorityDigest }: JoinToken): string {
  const parts = [Buffer.from(name), key, authorityDigest].map((part) => part.toString('base64url'));
  return [role, ...parts].join('.');
}

/** @throws {Error} when the text is not a token; the message does not contain the text */
export function readJoinToken(text: string): JoinToken {
  const [, role, name, key, digest] = form.exec(text.trim()) ?? [];
  if (!role) throw new Error('the file holds no join token of the last hop');
  const bytes = (part: string | undefined) => Buffer.from(part!, 'base64url');
  return {
    role: role as LastHopRole,
    name: bytes(name).toString('utf8'),
    key: bytes(key),
    authorityDigest: bytes(digest),
  };
}

/** Proves that a request comes from a holder of the token. */
export function computeProof(key: Buffer, request: string): string {
  return createHmac('sha256', key).update(request).digest('base64url');
}

export function isProof(key: Buffer, request: string, proof: string): boolean {
  const [wanted, given] = [Buffer.from(computeProof(key, request)), Buffer.from(proof)];
  return wanted.length === given.length && timingSafeEqual(wanted, given);
}
