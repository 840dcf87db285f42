import type { Chart } from './chart.ts';

/** What an Execute yields, in order; the last one is the main result or the error (section 6.3). */
export type ExecuteEvent =
  | { type: 'stdout' | 'stderr'; content: string }
  | { type: 'result'; result: RunResult }
  | { type: 'error'; error: RunError };

/** The representations of a value, as the contract's Result carries them: text, or base64 of binary formats. */
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
  /** Formats the contract has no field for, by MIME type. */
  extra?: Record<string, string>;
}

export interface RunResult extends Representations {
  exitCode: number;
  startedAt: Date;
  finishedAt: Date;
  executionCount: number;
  isMainResult: boolean;
}

export interface RunError {
  name: string;
  value: string;
  traceback: string;
}

/** A result that the code displayed on its way. */
export function displayEvent(shown: Representations, run: { startedAt: Date; count: number }): ExecuteEvent {
  const finishedAt = new Date();
  const { startedAt, count: executionCount } = run;
  return {
    type: 'result',
    result: { ...shown, exitCode: 0, startedAt, finishedAt, executionCount, isMainResult: false },
  };
}

const fullBytes = 1024 * 1024;
const roomBytes = 256 * 1024;
const longestChunk = 64 * 1024;

/**
 * What one run has put out and its reader has not yet taken. A kernel writes and is told by `onFlow` to stop reading
 * its sources when too much waits, and to go on when the reader has caught up, so that memory stays bounded and a
 * slow reader slows the code that writes.
 */
export class RunOutput implements AsyncIterable<ExecuteEvent> {
  private readonly waiting: { event: ExecuteEvent; bytes: number }[] = [];
  private waitingBytes = 0;
  private full = false;
  private finished = false;
  private discarded = false;
  private flow: ((flowing: boolean) => void) | undefined;
  private wakeReader: (() => void) | undefined;
  private wakeWriters: (() => void)[] = [];

  write(type: 'stdout' | 'stderr', content: string): void {
    if (content === '') return;
    const last = this.waiting.at(-1);
    if (last && last.event.type === type && last.bytes + content.length <= longestChunk && !this.discarded) {
      last.event.content += content;
      last.bytes += content.length;
      this.waitingBytes += content.length;
      this.stopWhenFull();
    } else this.push({ type, content }, content.length);
  }

  push(event: ExecuteEvent, bytes = eventBytes(event)): void {
    if (this.discarded || this.finished) return;
    this.waiting.push({ event, bytes });
    this.waitingBytes += bytes;
    this.stopWhenFull();
    this.wakeReader?.();
  }

  /** Nothing more comes; the reader ends when it has taken what waits. */
  finish(): void {
    this.finished = true;
    this.wakeReader?.();
  }

  /** The reader has left: what waits and what comes is dropped, and the reader's loop ends. */
  discard(): void {
    this.discarded = true;
    this.waiting.length = 0;
    this.waitingBytes = 0;
    this.goOn();
    this.wakeReader?.();
  }

  /** Tells the kernel that writes when to stop and to go on reading its sources. Undefined: nobody writes. */
  onFlow(flow: ((flowing: boolean) => void) | undefined): void {
    this.flow = flow;
    if (this.full) flow?.(false);
  }

  get isFull(): boolean {
    return this.full;
  }

  /** Resolves when the reader has room for more. */
  room(): Promise<void> {
    if (!this.full) return Promise.resolve();
    return new Promise((resolve) => this.wakeWriters.push(resolve));
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ExecuteEvent> {
    for (;;) {
      const next = this.waiting.shift();
      if (next) {
        this.waitingBytes -= next.bytes;
        if (this.waitingBytes <= roomBytes) this.goOn();
        yield next.event;
      } else if (this.finished || this.discarded) return;
      else {
        await new Promise<void>((resolve) => {
          this.wakeReader = resolve;
        });
      }
    }
  }

  private stopWhenFull(): void {
    if (this.full || this.waitingBytes < fullBytes) return;
    this.full = true;
    this.flow?.(false);
  }

  private goOn(): void {
    if (!this.full) return;
    this.full = false;
    this.flow?.(true);
    for (const wake of this.wakeWriters.splice(0)) wake();
  }
}

function eventBytes(event: ExecuteEvent): number {
  if (event.type !== 'result') return 256;
  let bytes = 256;
  for (const value of Object.values(event.result)) if (typeof value === 'string') bytes += value.length;
  return bytes;
}
