import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/**
 * Encrypts a document for the holders of a key and for one purpose. AES-256-GCM; base64 of nonce, text and tag.
 * @param key 32 bytes
 * @param purpose must be the same for `open`, for example the id of the object
 */
export function seal(key: Buffer, purpose: string, document: unknown): string {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(purpose));
  return Buffer.concat([nonce, cipher.update(JSON.stringify(document)), cipher.final(), cipher.getAuthTag()]).toString(
    'base64',
  );
}

/** @throws {Error} for another key or purpose, or a changed text */
export function open<Document>(key: Buffer, purpose: string, sealed: string): Document {
  const bytes = Buffer.from(sealed, 'base64');
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12)).setAAD(Buffer.from(purpose));
  decipher.setAuthTag(bytes.subarray(-16));
  return JSON.parse(Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString('utf8'));
}
