import fs from 'node:fs';
import path from 'node:path';
import type { Readable } from 'node:stream';
import type { DestinationStream } from 'pino';
import { logDestination } from '../../../platform/config/log-destination.ts';
import { RotatingLog } from './rotating-log.ts';

const tailCharacters = 2000;
/** The journal itself divides lines longer than 48 KiB (`LineMax=` in journald.conf(5)). */
const lineCharacters = 48 << 10;

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
    let rest = '';
    output.setEncoding('utf8').on('data', (text: string) => {
      const lines = `${rest}${text}`.split('\n');
      rest = lines.pop()!;
      for (const line of lines) this.#write(line);
      if (rest.length < lineCharacters) return;
      this.#write(rest);
      rest = '';
    });
    output.on('end', () => {
      if (rest) this.#write(rest);
    });
  }

  #write(line: string): void {
    this.#tail = `${this.#tail}${line}\n`.slice(-tailCharacters);
    this.#journal.write(`${line}\n`);
  }

  close(): void {}

  tail(): string {
    return this.#tail;
  }
}
