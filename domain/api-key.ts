import { crc32 } from 'node:zlib';

/**
 * API keys: `spk_` (so that secret scanners know them), 43 characters of base62 for 256 random bits, and 6 of a CRC32
 * checksum, so that a mistyped key is refused without asking the database.
 */
export const apiKeyPrefix = 'spk_';

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const keyShape = /^spk_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$/;

/** Makes a key from 32 unpredictable bytes. */
export function makeApiKey(random: Uint8Array): string {
  let value = random.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  let body = '';
  for (let i = 0; i < 43; i++) {
    body = base62[Number(value % 62n)] + body;
    value /= 62n;
  }
  return apiKeyPrefix + body + checksum(body);
}

/** Whether the text can be a key at all. */
export function isApiKeyShape(text: string): boolean {
  return keyShape.test(text) && checksum(text.slice(apiKeyPrefix.length, -6)) === text.slice(-6);
}

function checksum(body: string): string {
  let value = crc32(body);
  let text = '';
  for (let i = 0; i < 6; i++) {
    text = base62[value % 62] + text;
    value = Math.floor(value / 62);
  }
  return text;
}
