import { execFile } from 'node:child_process';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');

/** The result of an operator's command. */
export interface OperatorResult {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a command as `npm run admin` or `npm run temporal` does, on the platform with this data folder. */
export function runOperator(
  script: 'admin' | 'temporal',
  dataDir: string,
  args: readonly string[],
  timeoutMs = 120_000,
): Promise<OperatorResult> {
  const words = {
    admin: ['ops/operator/admin.ts'],
    temporal: ['ops/local-stack/temporal-cli.ts'],
  }[script];
  const env = { ...process.env, NODE_OPTIONS: '', PLATFORM_DATA_DIR: dataDir };
  const options = { cwd: root, env, maxBuffer: 64 * 1024 ** 2, timeout: timeoutMs };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [...words, ...args], options, (error, stdout, stderr) => {
      if (error && typeof error.code !== 'number') reject(error);
      else resolve({ code: error ? Number(error.code) : 0, stdout, stderr });
    });
  });
}
