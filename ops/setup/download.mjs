import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { EnvHttpProxyAgent, fetch } from 'undici';

/**
 * `node download.mjs URL FILE SHA256 MAX_BYTES`, with the project's Node and packages, which support the variables of
 * proxies and the machine's certificates. If it fails, the last line on standard error is the reason, and there is no
 * file.
 */
const [url, file, sha256, maxBytes] = process.argv.slice(2);

/** A machine without a network, or with a firewall that drops packets, must not wait long for the other way. */
const connectTimeout = 5000;
/** The longest time without a byte. Proxies may read the whole file before they send anything. */
const stallTimeout = 30_000;
const totalTimeout = 15 * 60_000;

/** Passes on at most `maxBytes`, and fails when the whole differs from the checksum. */
async function* checked(chunks) {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > Number(maxBytes)) throw new Error(`it is larger than ${maxBytes} bytes`);
    hash.update(chunk);
    yield chunk;
  }
  const found = hash.digest('hex');
  if (found !== sha256) throw new Error(`its SHA-256 is ${found} and not ${sha256}`);
}

try {
  const dispatcher = new EnvHttpProxyAgent({ connectTimeout, headersTimeout: stallTimeout, bodyTimeout: stallTimeout });
  const reply = await fetch(url, { dispatcher, signal: AbortSignal.timeout(totalTimeout) });
  if (!reply.ok) throw new Error(`it answers ${reply.status}`);
  await pipeline(Readable.fromWeb(reply.body), checked, fs.createWriteStream(file));
} catch (error) {
  fs.rmSync(file, { force: true });
  console.error(`${url}: ${error.cause?.message ?? error.message}`);
  process.exit(1);
}
process.exit(0);
