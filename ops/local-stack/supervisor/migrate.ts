import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';

const answerSchema = z.object({ created: z.boolean(), apiKey: z.string().optional() });

const root = path.resolve(import.meta.dirname, '../../..');

/**
 * Brings the platform's database up to date and makes the first account, in a process of its own.
 * @returns the API key of that account, when it was made now
 */
export async function migrate(
  script: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string | undefined> {
  const words = [path.resolve(root, script), '--print-api-key'];
  const { stdout } = await promisify(execFile)(process.execPath, words, { env, signal });
  // The result is the last line; earlier lines are for people.
  const answer = answerSchema.parse(JSON.parse(stdout.trim().split('\n').at(-1)!));
  return answer.created ? answer.apiKey : undefined;
}
