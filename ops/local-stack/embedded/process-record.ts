import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { writeFileDurablySync } from '../../../config/durable-file.ts';
import { readDocumentOrSetAside } from '../../../config/readable-document.ts';
import { isOutOfSpace } from '../../../runtime/disk/out-of-space.ts';

const processesSchema = z.array(
  z.object({
    name: z.string(),
    pid: z.int().positive(),
    /** Pids are used again; a pid with its start time is not. */
    startedAt: z.string(),
  }),
);
type RecordedProcess = z.output<typeof processesSchema>[number];

/** How long the programs of a crashed start may take to stop before they are killed. */
const leftoverPatienceMs = 15_000;

/**
 * The programs that run for a data folder, in a file, so that a start after a SIGKILL of the supervisor finds them.
 * Only the holder of the folder's lock uses it.
 */
export class ProcessRecord {
  readonly #file: string;
  #processes: RecordedProcess[] = [];

  constructor(file: string) {
    this.#file = file;
    this.#processes = readDocumentOrSetAside(file, processesSchema) ?? [];
  }

  add(name: string, pid: number): void {
    const startedAt = processStartedAt(pid);
    if (startedAt) this.#write([...this.#processes, { name, pid, startedAt }]);
  }

  remove(pid: number): void {
    this.#write(this.#processes.filter((known) => known.pid !== pid));
  }

  /**
   * Ends the programs that a former start left running.
   * @returns their names
   */
  async endLeftovers(): Promise<string[]> {
    const leftovers = this.#processes.filter(isStillThere);
    for (const { pid } of leftovers) signalIfThere(pid, 'SIGTERM');
    const deadline = Date.now() + leftoverPatienceMs;
    while (leftovers.some(isStillThere)) {
      if (Date.now() > deadline) for (const { pid } of leftovers.filter(isStillThere)) signalIfThere(pid, 'SIGKILL');
      await delay(50);
    }
    this.#write([]);
    return leftovers.map(({ name }) => name);
  }

  /**
   * A full disk keeps the former file; the next change writes again. Entries of processes that have ended do no harm,
   * for a pid counts only with its start time. A process that is missing here ends with its parent in any case.
   */
  #write(processes: RecordedProcess[]): void {
    this.#processes = processes;
    try {
      fs.mkdirSync(path.dirname(this.#file), { recursive: true });
      writeFileDurablySync(this.#file, JSON.stringify(processes, null, 2));
    } catch (error) {
      if (!isOutOfSpace(error)) throw error;
    }
  }
}

function isStillThere({ pid, startedAt }: RecordedProcess): boolean {
  return processStartedAt(pid) === startedAt;
}

function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** When a process began: boot and clock tick. Undefined: there is none, or it is a zombie. */
export function processStartedAt(pid: number): string | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the program's name in brackets, which may hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, startTicks] = [fields[0], fields[19]];
    if (state === 'Z' || state === 'X') return undefined;
    return `${fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${startTicks}`;
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
