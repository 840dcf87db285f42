import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { DestinationStream } from 'pino';
import { logDestination } from '../../../platform/config/log-destination.ts';
import { RotatingLog } from './rotating-log.ts';

const tailCharacters = 2000;

/** Where the output of a program goes. */
export interface ProgramLog {
  follow(output: Readable): void;
  close(): void;
  /** The end of the output. */
  tail(): string;
}

/** @param logDir the log is `<logDir>/<name>.log`; null: the journal, in which each line begins with the name */
export function openProgramLog(name: string, logDir: string | null): ProgramLog {
  return logDir === null ? new LogInJournal(name) : new LogInFile(path.join(logDir, `${name}.log`));
}

class LogInFile implements ProgramLog {
  readonly #log: RotatingLog;

  constructor(file: string) {
    this.#log = new RotatingLog(file);
  }

  follow(output: Readable): void {
    output.on('data', (chunk: Buffer) => this.#log.write(chunk));
  }

  close(): void {
    this.#log.close();
  }

  tail(): string {
    // There is no file if the disk was full from the start.
    if (!fs.existsSync(this.#log.path)) return '';
    return fs.readFileSync(this.#log.path, 'utf8').slice(-tailCharacters);
  }
}

class LogInJournal implements ProgramLog {
  readonly #journal: DestinationStream;
  #tail = '';

  constructor(name: string) {
    this.#journal = logDestination(name);
  }

  follow(output: Readable): void {
    createInterface(output).on('line', (line) => {
      this.#tail = `${this.#tail}${line}\n`.slice(-tailCharacters);
      this.#journal.write(`${line}\n`);
    });
  }

  close(): void {}

  tail(): string {
    return this.#tail;
  }
}
