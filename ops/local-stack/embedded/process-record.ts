import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { writeFileDurablySync } from '../../../platform/config/durable-file.ts';
import { readDocumentOrSetAside } from '../../../platform/config/readable-document.ts';
import { isOutOfSpace } from '../../../runtime/disk/out-of-space.ts';

const processesSchema = z.array(
  z.object({
    name: z.string(),
    pid: z.int().positive(),
    /** Pids are reused. A pid together with its start time is unique. */
    startedAt: z.string(),
  }),
);
type RecordedProcess = z.output<typeof processesSchema>[number];

/** How long the programs of a crashed start may take to stop before they are killed. */
const leftoverTimeoutMs = 15_000;

/**
 * The running programs of a data folder, stored in a file, so that the next start finds them if the supervisor was
 * killed. Only the holder of the folder's lock uses it.
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
   * Ends the programs that an earlier start left running.
   * @returns their names
   */
  async endLeftovers(): Promise<string[]> {
    const leftovers = this.#processes.filter(isStillThere);
    for (const { pid } of leftovers) signalIfThere(pid, 'SIGTERM');
    const deadline = Date.now() + leftoverTimeoutMs;
    while (leftovers.some(isStillThere)) {
      if (Date.now() > deadline) for (const { pid } of leftovers.filter(isStillThere)) signalIfThere(pid, 'SIGKILL');
      await delay(50);
    }
    this.#write([]);
    return leftovers.map(({ name }) => name);
  }

  /**
   * If the disk is full, the old file stays, and the next change writes it again. Entries of ended processes do no
   * harm, because a pid only counts with its start time. A process without an entry ends with its parent anyway.
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

/** The start of a process: boot id and clock tick. Undefined: there is no such process, or it is a zombie. */
export function processStartedAt(pid: number): string | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the program's name in brackets, which may contain any character.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, startTicks] = [fields[0], fields[19]];
    if (state === 'Z' || state === 'X') return undefined;
    return `${fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${startTicks}`;
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
