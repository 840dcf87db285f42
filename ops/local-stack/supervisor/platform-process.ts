import path from 'node:path';
import { heapFlags } from '../../../platform/config/heap-limits.ts';
import { ChildProgram, type ProgramHome } from '../embedded/child-program.ts';
import type { Part } from './kept-running.ts';
import { readLogLine } from './log-line.ts';

const root = path.resolve(import.meta.dirname, '../../..');

/**
 * Starts one of the platform's own processes and waits until it logs `"msg":"ready"`.
 * @param script the path from the project's root, such as `api/server.ts`
 * @param onWarning called with its log lines from `warn` on, and every 30 s while it is not ready, for people
 * @throws {ProgramError} with the end of its log when it does not become ready
 */
export async function startPlatformProcess(options: {
  name: string;
  script: string;
  env: NodeJS.ProcessEnv;
  home: ProgramHome;
  onWarning: (text: string) => void;
}): Promise<Part> {
  const ready = Promise.withResolvers<void>();
  const program = await ChildProgram.start({
    name: options.name,
    command: process.execPath,
    args: [...heapFlags(options.script, options.env), path.resolve(root, options.script)],
    env: options.env,
    home: options.home,
    // A host worker first completes its work on sandboxes.
    stopTimeoutMs: 20_000,
    onLine: (line) => {
      const read = readLogLine(line);
      if (read?.isReady) ready.resolve();
      if (read?.warning) options.onWarning(`${options.name}: ${read.warning}`);
    },
  });
  const begun = Date.now();
  const reminder = setInterval(() => {
    options.onWarning(`${options.name}: not ready after ${Math.round((Date.now() - begun) / 1000)} s`);
  }, 30_000);
  try {
    await program.whenReady(() => ready.promise);
  } finally {
    clearInterval(reminder);
  }
  return program;
}
