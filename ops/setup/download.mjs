import fs from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** `node download.mjs URL FILE`. If it fails, the last line on standard error is the reason. */
const [url, file] = process.argv.slice(2);
try {
  const reply = await fetch(url);
  if (!reply.ok) throw new Error(`it answers ${reply.status}`);
  await pipeline(Readable.fromWeb(reply.body), fs.createWriteStream(file));
} catch (error) {
  console.error(`${url}: ${error.cause?.message ?? error.message}`);
  process.exitCode = 1;
}
