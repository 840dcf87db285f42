import { Wakeup } from '../rpc/wakeup.ts';

/**
 * Limits of the kept output. The number of events is limited too, because one-byte writes cost many times their bytes.
 */
const maxBytes = 1024 * 1024;
const maxEvents = 16_384;
/** The maximum output in one event. */
const maxPieceBytes = 48 * 1024;
/** Small writes that no reader has taken yet are joined up to this size. */
const joinedBytes = 4 * 1024;
/** How far the fastest reader may lag before the process waits for it. */
const comfortableLagBytes = maxBytes / 2;
/**
 * How long the process waits, once per stall, for readers that take nothing. The wait counts single seconds, so a pause
 * of the machine or the sandbox costs only one of them.
 */
const maxWaitSeconds = 5;
/** How long a process with much output waits for its first reader, which connects shortly after the start. */
const firstReaderMs = 3000;
/** Readers wait for events without a time limit. */
const dayMs = 86_400_000;

export type OutputChannel = 'stdout' | 'stderr';
export type ExecEnd = { type: 'end'; exitCode: number } | { type: 'error'; code: string; message: string };

/** One event of an execution. Sequence numbers count from 1, which is `start`. A gap means that output was dropped. */
export type ExecEvent = { sequence: number } & (
  | { type: OutputChannel; bytes: Buffer }
  | { type: 'start'; pid: number }
  | ExecEnd
);

interface Output {
  sequence: number;
  type: OutputChannel;
  bytes: Buffer;
  /** The total number of output bytes up to the end of this piece. */
  endsAt: number;
  /** A reader has taken the event, so it must not change any more. */
  taken: boolean;
}

interface Reader {
  sequence: number;
  /** The number of output bytes that the reader has seen or lost. */
  readTo: number;
  /** The reader does not read, so the process does not wait for it. */
  hasStopped: boolean;
  something: Wakeup;
}

/**
 * The events of one execution: its start, the newest MiB of its output, its end. Each reader reads at its own speed
 * from any event. A reader that stalls loses the oldest output and does not slow the others.
 */
export class EventRing {
  readonly #start: ExecEvent;
  readonly #outputs: Output[] = [];
  #end: ExecEvent | undefined;
  #isClosed = false;
  #sequence = 1;
  #heldBytes = 0;
  #allBytes = 0;
  readonly #readers = new Set<Reader>();
  readonly #progress = new Wakeup();
  #isReaderExpected = true;

  constructor(pid: number) {
    this.#start = { sequence: 1, type: 'start', pid };
  }

  /** The sequence number of the last event. Undefined while more events may come. */
  get lastSequence(): number | undefined {
    return this.#end?.sequence;
  }

  get hasReaders(): boolean {
    return this.#readers.size > 0;
  }

  /** Keeps a copy of the bytes. Output after the end is dropped. */
  addOutput(type: OutputChannel, output: Buffer): void {
    if (this.#end || this.#isClosed) return;
    for (let from = 0; from < output.length; from += maxPieceBytes) {
      this.#addPiece(type, output.subarray(from, from + maxPieceBytes));
    }
    while (this.#heldBytes > maxBytes || this.#outputs.length > maxEvents) {
      this.#heldBytes -= this.#outputs.shift()!.bytes.length;
    }
    this.#wakeReaders();
  }

  finish(end: ExecEnd): void {
    if (this.#end || this.#isClosed) return;
    this.#sequence += 1;
    this.#end = { ...end, sequence: this.#sequence };
    this.#wakeReaders();
  }

  /** Drops all events. Readers end without another event. */
  close(): void {
    this.#isClosed = true;
    this.#outputs.length = 0;
    this.#wakeReaders();
  }

  /**
   * The events after number `after` (0: from the start) to the end. If older events were dropped, it begins at the
   * oldest one that is left.
   */
  async *read(after: number, signal: AbortSignal): AsyncGenerator<ExecEvent> {
    const readTo = this.#allBytes - this.#heldBytes;
    const reader: Reader = { sequence: after, readTo, hasStopped: false, something: new Wakeup() };
    const wake = () => reader.something.wake();
    this.#readers.add(reader);
    this.#isReaderExpected = false;
    signal.addEventListener('abort', wake);
    try {
      while (!signal.aborted && !this.#isClosed) {
        const event = this.#next(reader);
        if (!event) {
          await reader.something.within(dayMs);
          continue;
        }
        reader.sequence = event.sequence;
        yield event;
        reader.hasStopped = false;
        this.#progress.wake();
        if (event === this.#end) return;
      }
    } finally {
      signal.removeEventListener('abort', wake);
      this.#readers.delete(reader);
      this.#progress.wake();
    }
  }

  /**
   * Resolves when the process may write more: at once, unless all readers are far behind. Then readers get a moment to
   * catch up, so that the fastest reader gets everything.
   */
  async drained(): Promise<void> {
    if (this.#isReaderExpected && this.#heldBytes > comfortableLagBytes) {
      await this.#progress.within(firstReaderMs);
      this.#isReaderExpected = false;
    }
    for (;;) {
      const reading = [...this.#readers].filter((reader) => !reader.hasStopped);
      const foremost = Math.max(...reading.map((reader) => reader.readTo));
      if (reading.length === 0 || this.#allBytes - foremost <= comfortableLagBytes) return;
      if (this.#end || this.#isClosed) return;
      if (await this.#isTakenFrom()) continue;
      for (const reader of reading) reader.hasStopped = true;
    }
  }

  /** Whether a reader takes something in time. */
  async #isTakenFrom(): Promise<boolean> {
    for (let second = 0; second < maxWaitSeconds; second += 1) {
      if (await this.#progress.within(1000)) return true;
    }
    return false;
  }

  #addPiece(type: OutputChannel, piece: Buffer): void {
    this.#heldBytes += piece.length;
    this.#allBytes += piece.length;
    const newest = this.#outputs.at(-1);
    if (newest && newest.type === type && !newest.taken && newest.bytes.length + piece.length <= joinedBytes) {
      newest.bytes = Buffer.concat([newest.bytes, piece]);
      newest.endsAt = this.#allBytes;
      return;
    }
    this.#sequence += 1;
    const output = { sequence: this.#sequence, type, bytes: Buffer.from(piece), endsAt: this.#allBytes, taken: false };
    this.#outputs.push(output);
  }

  #next(reader: Reader): ExecEvent | undefined {
    if (reader.sequence < 1) return this.#start;
    const [oldest] = this.#outputs;
    const output = oldest && this.#outputs[Math.max(0, reader.sequence + 1 - oldest.sequence)];
    if (output) {
      output.taken = true;
      reader.readTo = output.endsAt;
      return output;
    }
    return this.#end && reader.sequence < this.#end.sequence ? this.#end : undefined;
  }

  #wakeReaders(): void {
    for (const reader of this.#readers) reader.something.wake();
  }
}
