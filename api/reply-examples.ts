import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** A successful reply of a running platform, its ids, times and secrets replaced. */
export interface ReplyExample {
  status: number;
  /** JSON, or the text of a reply that is none. Absent: the reply has no body. */
  body?: unknown;
}

/**
 * Replies for the reference, by operation id: one file an operation, which `test/docs/reference.test.ts` writes and
 * holds against a running platform.
 */
export const replyExamplesDir = path.join(import.meta.dirname, 'reply-examples');

export const replyExamples: Readonly<Record<string, ReplyExample>> = Object.fromEntries(
  (existsSync(replyExamplesDir) ? readdirSync(replyExamplesDir) : []).map((name) => [
    path.basename(name, '.json'),
    JSON.parse(readFileSync(path.join(replyExamplesDir, name), 'utf8')),
  ]),
);
