import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import type { PlatformEnv } from '../../ops/local-stack/supervisor/platform-env.ts';
import type { Outcome } from './programs/parts.ts';

const run = promisify(execFile);

/** The second spelling of an API key. */
export const e2bKey = (apiKey: string) => `e2b_${Buffer.from(apiKey).toString('hex')}`;

/** The variables of E2B's packages for a platform on one machine. */
export const settingsFor = (platform: PlatformEnv) => ({
  E2B_API_URL: `${platform.PLATFORM_URL}/e2b`,
  E2B_SANDBOX_URL: platform.PLATFORM_GATEWAY,
  E2B_API_KEY: e2bKey(platform.PLATFORM_API_KEY!),
});

/** What a program reports: the outcome of each of its parts, and the methods that it called. */
export interface Report {
  outcomes: Outcome[];
  called: string[];
}

/** Runs a program of `programs/`. @param words the interpreter, the name of its file and its arguments */
export async function runProgram([command, ...args]: string[], env: NodeJS.ProcessEnv): Promise<Report> {
  const { stdout } = await run(command!, args, {
    cwd: path.join(import.meta.dirname, 'programs'),
    env: { ...process.env, NODE_OPTIONS: '', PYTHONDONTWRITEBYTECODE: '1', ...env },
    timeout: 170_000,
    maxBuffer: 64 * 1024 ** 2,
  });
  return JSON.parse(stdout.trimEnd().split('\n').at(-1)!);
}

/** Every part of the program succeeded, and it has some. @param what the package that it used */
export function expectSuccess(what: string, { outcomes }: Report): void {
  expect(outcomes.length).toBeGreaterThan(0);
  const failed = outcomes.filter(([, error]) => error !== null).map(([part, error]) => `${what}: ${part}: ${error}`);
  expect(failed.join('\n\n')).toBe('');
}
