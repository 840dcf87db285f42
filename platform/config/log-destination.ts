import fs from 'node:fs';
import type { DestinationStream } from 'pino';
import { journalLine, writesToJournal } from './journal.ts';

/** After a failed write, the next attempt follows after this long. */
const retryMs = 500;
/** How long writing to a full pipe is retried, in steps, before lines are dropped. */
const fullPipeMs = 1000;
const fullPipeStepMs = 10;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/**
 * Standard output for a process's log, in the form of systemd's journal if that reads it. Neither a missing reader nor a
 * full disk ends the process: lines that cannot be written are dropped, and their number is logged when writing works
 * again.
 * @param program in the journal, each line begins with it; for a process that logs for several programs
 */
export function logDestination(program?: string): DestinationStream {
  const format = writesToJournal() ? (line: string) => journalLine(line.trimEnd(), program) : (line: string) => line;
  let dropped = 0;
  let retryAtMs = 0;
  /** The rest of a partly written line. */
  let rest: Buffer = Buffer.alloc(0);

  const append = (bytes: Buffer) => {
    rest = bytes;
    while (rest.length > 0) rest = rest.subarray(writeSome(rest));
  };
  return {
    write(given: string) {
      if (Date.now() < retryAtMs) {
        dropped += 1;
        return;
      }
      const line = format(given);
      let begun = false;
      try {
        append(rest);
        if (dropped > 0) {
          append(Buffer.from(format(droppedLine(dropped))));
          dropped = 0;
        }
        begun = true;
        append(Buffer.from(line));
      } catch (error) {
        if (!(error as NodeJS.ErrnoException).code) throw error;
        const nothingOfIt = !begun || rest.length === Buffer.byteLength(line);
        if (nothingOfIt) dropped += 1;
        if (begun && nothingOfIt) rest = Buffer.alloc(0);
        retryAtMs = Date.now() + retryMs;
      }
    },
  };
}

/** A warning in pino's format. */
function droppedLine(lines: number): string {
  return `${JSON.stringify({ level: 40, time: Date.now(), lines, msg: 'lines of this log were dropped: they could not be written' })}\n`;
}

/** @returns the number of bytes that the kernel took */
function writeSome(bytes: Buffer): number {
  for (let waitedMs = 0; ; waitedMs += fullPipeStepMs) {
    try {
      const written = fs.writeSync(1, bytes);
      if (written > 0) return written;
      throw Object.assign(new Error('the kernel took nothing'), { code: 'ENOSPC' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || waitedMs >= fullPipeMs) throw error;
      Atomics.wait(sleeper, 0, 0, fullPipeStepMs);
    }
  }
}
