import fs from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** `node download.mjs URL FILE` */
const [url, file] = process.argv.slice(2);
const reply = await fetch(url);
if (!reply.ok) throw new Error(`${url} answers ${reply.status}`);
await pipeline(Readable.fromWeb(reply.body), fs.createWriteStream(file));
