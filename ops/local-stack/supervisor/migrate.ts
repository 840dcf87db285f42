import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';

const answerSchema = z.object({ created: z.boolean(), apiKey: z.string().optional() });

const root = path.resolve(import.meta.dirname, '../../..');

/**
 * Updates the platform's database and makes the first account, in its own process.
 * @returns the API key of that account, if it was made now
 */
export async function migrate(
  script: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<string | undefined> {
  const words = [path.resolve(root, script), '--print-api-key'];
  const { stdout } = await promisify(execFile)(process.execPath, words, { env, signal });
  const answer = answerSchema.parse(JSON.parse(stdout));
  return answer.created ? answer.apiKey : undefined;
}
