import { crc32 } from 'node:zlib';

/**
 * The format of API keys: `spk_` (a prefix that secret scanners can match), 43 characters of base62 for 256 random
 * bits, and 6 characters of a CRC32 checksum. The checksum lets the API refuse a mistyped key without a database query.
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

/** Whether the text has the format of a key. */
export function isApiKeyShape(text: string): boolean {
  return keyShape.test(text) && checksum(text.slice(apiKeyPrefix.length, -6)) === text.slice(-6);
}

/** SDKs of E2B refuse keys of another form than this prefix and hexadecimal digits. */
const e2bPrefix = 'e2b_';
const e2bShape = /^e2b_[0-9a-f]{106}$/;

/** The second spelling of a key: `e2b_` and the hexadecimal digits of its text. */
export function spellForE2b(key: string): string {
  return e2bPrefix + Buffer.from(key).toString('hex');
}

/** The key in its first spelling. Null: the text is not a key in either spelling. */
export function readApiKey(text: string): string | null {
  const key = e2bShape.test(text) ? Buffer.from(text.slice(e2bPrefix.length), 'hex').toString('latin1') : text;
  return isApiKeyShape(key) ? key : null;
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
