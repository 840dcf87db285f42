import type { Chart } from './chart.ts';

/** An event of an Execute. The last event of an execution is the main result or the error. */
export type ExecuteEvent =
  | { type: 'stdout' | 'stderr'; content: string }
  | { type: 'result'; result: ExecutionResult }
  | { type: 'error'; error: ExecutionError; executionCount: number };

/** The representations of a value in the form of the contract's Result: text, or base64 for binary formats. */
export interface Representations {
  text?: string;
  html?: string;
  markdown?: string;
  svg?: string;
  png?: string;
  jpeg?: string;
  pdf?: string;
  latex?: string;
  json?: string;
  javascript?: string;
  data?: string;
  chart?: Chart;
  /** Formats without a field in the contract, by MIME type. */
  extra?: Record<string, string>;
}

export interface ExecutionResult extends Representations {
  exitCode: number;
  startedAt: Date;
  finishedAt: Date;
  executionCount: number;
  isMainResult: boolean;
}

export interface ExecutionError {
  name: string;
  value: string;
  traceback: string;
}

/** A result that the code displayed before its end. */
export function displayEvent(shown: Representations, execution: { startedAt: Date; count: number }): ExecuteEvent {
  const finishedAt = new Date();
  const { startedAt, count: executionCount } = execution;
  return {
    type: 'result',
    result: { ...shown, exitCode: 0, startedAt, finishedAt, executionCount, isMainResult: false },
  };
}

const fullBytes = 1024 * 1024;
const resumeBytes = 256 * 1024;
const longestChunk = 64 * 1024;
const separateLines = 64;

/**
 * The output of one execution that its reader has not taken yet. When too much waits, `onFlow` makes the kernel stop
 * reading its sources until the reader has caught up. So memory stays bounded, and a slow reader slows the code that
 * writes.
 */
export class ExecutionOutput implements AsyncIterable<ExecuteEvent> {
  readonly #waiting: { event: ExecuteEvent; bytes: number }[] = [];
  #waitingBytes = 0;
  #full = false;
  #finished = false;
  #discarded = false;
  #flow: ((flowing: boolean) => void) | undefined;
  #wakeReader: (() => void) | undefined;
  #wakeWriters: (() => void)[] = [];

  /** One event a line while the reader keeps up. Many waiting lines are joined, because events cost more than bytes. */
  write(type: 'stdout' | 'stderr', content: string): void {
    let from = 0;
    while (from < content.length && this.#waiting.length < separateLines && !this.#discarded) {
      const end = content.indexOf('\n', from) + 1 || content.length;
      this.#append(type, content.slice(from, end), false);
      from = end;
    }
    if (from < content.length) this.#append(type, content.slice(from), true);
  }

  #append(type: 'stdout' | 'stderr', content: string, joinsLines: boolean): void {
    const last = this.#waiting.at(-1);
    const continues =
      last?.event.type === type && (joinsLines || !(last.event as { content: string }).content.endsWith('\n'));
    if (continues && last.bytes + content.length <= longestChunk && !this.#discarded) {
      (last.event as { content: string }).content += content;
      last.bytes += content.length;
      this.#waitingBytes += content.length;
      this.#stopWhenFull();
    } else this.push({ type, content }, content.length);
  }

  push(event: ExecuteEvent, bytes = eventBytes(event)): void {
    if (this.#discarded || this.#finished) return;
    this.#waiting.push({ event, bytes });
    this.#waitingBytes += bytes;
    this.#stopWhenFull();
    this.#wakeReader?.();
  }

  /** Marks the end. The reader ends when it has taken everything. */
  finish(): void {
    this.#finished = true;
    this.#wakeReader?.();
  }

  /** Drops current and future output, and ends the reader's loop. */
  discard(): void {
    this.#discarded = true;
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    this.#goOn();
    this.#wakeReader?.();
  }

  /** Sets the callback that stops and resumes the kernel's reading. Undefined while no kernel writes. */
  onFlow(flow: ((flowing: boolean) => void) | undefined): void {
    this.#flow = flow;
    if (this.#full) flow?.(false);
  }

  get isFull(): boolean {
    return this.#full;
  }

  /** Resolves when the reader has taken enough to write more. */
  drained(): Promise<void> {
    if (!this.#full) return Promise.resolve();
    return new Promise((resolve) => this.#wakeWriters.push(resolve));
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ExecuteEvent> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next) {
        this.#waitingBytes -= next.bytes;
        if (this.#waitingBytes <= resumeBytes) this.#goOn();
        yield next.event;
      } else if (this.#finished || this.#discarded) return;
      else {
        await new Promise<void>((resolve) => {
          this.#wakeReader = resolve;
        });
      }
    }
  }

  #stopWhenFull(): void {
    if (this.#full || this.#waitingBytes < fullBytes) return;
    this.#full = true;
    this.#flow?.(false);
  }

  #goOn(): void {
    if (!this.#full) return;
    this.#full = false;
    this.#flow?.(true);
    for (const wake of this.#wakeWriters.splice(0)) wake();
  }
}

function eventBytes(event: ExecuteEvent): number {
  if (event.type !== 'result') return 256;
  let bytes = 256;
  for (const value of Object.values(event.result)) if (typeof value === 'string') bytes += value.length;
  return bytes;
}
