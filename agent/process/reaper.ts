import { libc } from '../native/libc.ts';

/** The end of a process: an exit code, or a signal's number. */
export interface ProcessExit {
  code: number | null;
  signal: number | null;
}

const noHang = 1;
const status = Buffer.alloc(4);
const waiting = new Map<number, (exit: ProcessExit) => void>();

/**
 * Waits for the child `pid` and resolves with its end. Children of `node:child_process` are not affected, because only
 * pids passed to this function are waited for.
 */
export function waitForExit(pid: number): Promise<ProcessExit> {
  return new Promise((resolve) => {
    waiting.set(pid, resolve);
    // The child may have ended before this call.
    collect(pid);
  });
}

/** Must be called before the first child is started, so that no end is missed. */
export function watchForEnds(): void {
  if (process.listeners('SIGCHLD').includes(collectAll)) return;
  process.on('SIGCHLD', collectAll);
}

function collectAll(): void {
  // One SIGCHLD may report several ended children.
  for (const pid of waiting.keys()) collect(pid);
}

function collect(pid: number): void {
  const result = libc().waitpid(pid, status, noHang);
  if (result === 0) return;
  const resolve = waiting.get(pid)!;
  waiting.delete(pid);
  if (result !== pid) {
    resolve({ code: -1, signal: null });
    return;
  }
  const word = status.readInt32LE(0);
  const signal = word & 0x7f;
  resolve(signal === 0 ? { code: (word >> 8) & 0xff, signal: null } : { code: null, signal });
}
