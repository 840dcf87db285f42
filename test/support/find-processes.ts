import { readdirSync } from 'node:fs';

/**
 * The pids of the machine's processes that meet a condition.
 * @param isWanted may read files of the process; one that ends meanwhile is not wanted
 */
export function findProcesses(isWanted: (pid: number) => boolean): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return isWanted(pid);
      } catch (error) {
        if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
        throw error;
      }
    });
}
