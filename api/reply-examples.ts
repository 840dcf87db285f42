import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** A successful reply of a running platform, with replaced ids, times and secrets. */
export interface ReplyExample {
  status: number;
  /** JSON, or the text of a reply that is not JSON. Absent: the reply has no body. */
  body?: unknown;
}

/**
 * The folder of the replies in the reference, one file per operation id. `test/docs/reference.test.ts` writes them and
 * compares them with a running platform.
 */
export const replyExamplesDir = path.join(import.meta.dirname, '../docs/reference/replies');

export const replyExamples: Readonly<Record<string, ReplyExample>> = Object.fromEntries(
  (existsSync(replyExamplesDir) ? readdirSync(replyExamplesDir) : []).map((name) => [
    path.basename(name, '.json'),
    JSON.parse(readFileSync(path.join(replyExamplesDir, name), 'utf8')),
  ]),
);
