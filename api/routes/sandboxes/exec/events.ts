import { keepaliveFrame, within } from '../../../event-streams.ts';

/** The longest event an agent sends is 48 KiB of output in base64. */
const maxFrameBytes = 128 * 1024;
const frameEnd = Buffer.from('\n\n');
const frameShape =
  /^(?:retry: \d{1,6}\n)?(?:id: \w{1,64}-\d{1,16}\n)?event: (ready|start|stdout|stderr|end|error)\ndata: [^\r\n]*$/;

/** Why a stream ends without the last event of its execution. */
export interface ExecFailure {
  code: string;
  message: string;
}

export interface StreamOptions {
  /** Waits until the next bytes may be parsed, so that many streams of fast agents do not delay other requests. */
  turn(): Promise<void>;
  keepaliveMs: number;
  /** Called after each silence. Returns a reason to stop waiting, or null. */
  onSilence(): Promise<ExecFailure | null>;
  /** The agent's stream broke off. Null: the reader has gone, so the stream ends without an event. */
  onBreak(): Promise<ExecFailure | null>;
  /** Ends the stream in this process. The reader may continue at another replica. */
  signal: AbortSignal;
}

/**
 * Forwards an agent's events to a client one by one at the client's speed. Sends a `keepalive` in each silence, and
 * always ends with `end` or `error`. Data that does not look like an event is dropped, because the agent is inside the
 * sandbox.
 */
export async function* execStream(agent: AsyncIterable<Buffer>, options: StreamOptions): AsyncGenerator<Buffer> {
  const chunks = agent[Symbol.asyncIterator]();
  const events = new EventSplitter();
  let next = chunks.next();
  while (!options.signal.aborted) {
    let got: IteratorResult<Buffer> | 'silence' | 'aborted';
    try {
      got = await within(next, options.keepaliveMs, options.signal);
    } catch {
      // `onBreak` explains the broken connection by the sandbox's status, which is clearer than its network error.
      got = { done: true, value: undefined };
    }
    if (got === 'aborted') return;
    if (got === 'silence') {
      const failure = await options.onSilence();
      yield failure ? errorFrame(failure) : keepaliveFrame;
      if (failure) return;
      continue;
    }
    if (!got.done) await options.turn();
    const { frames, isLast, isForeign } = events.add(got.done ? nothing : got.value);
    if (frames.length > 0) yield frames;
    if (isLast) return;
    if (got.done || isForeign) {
      const failure = await options.onBreak();
      if (failure) yield errorFrame(failure);
      return;
    }
    next = chunks.next();
  }
}

const nothing: Buffer = Buffer.alloc(0);

function errorFrame(failure: ExecFailure): Buffer {
  return Buffer.from(`event: error\ndata: ${JSON.stringify(failure)}\n\n`);
}

/**
 * Cuts a stream into whole events. The agent chooses the size of the pieces, down to one byte. So each byte is copied
 * and scanned only once for every size of pieces.
 */
class EventSplitter {
  #bytes: Buffer = Buffer.alloc(4096);
  #length = 0;
  /** The bytes before this offset contain no end of an event. */
  #searched = 0;

  /**
   * The events that `chunk` completes, up to the execution's last event. `isForeign`: the following bytes are not an
   * event.
   */
  add(chunk: Buffer): { frames: Buffer; isLast: boolean; isForeign: boolean } {
    this.#append(chunk);
    const bytes = this.#bytes.subarray(0, this.#length);
    let at = 0;
    const result = (isLast: boolean, isForeign: boolean) => {
      const frames = Buffer.from(bytes.subarray(0, at));
      bytes.copyWithin(0, at);
      this.#length -= at;
      this.#searched = Math.max(0, this.#length - 1);
      return { frames, isLast, isForeign };
    };
    for (;;) {
      const end = bytes.indexOf(frameEnd, Math.max(at, this.#searched));
      if (end < 0) return result(false, bytes.length - at > maxFrameBytes);
      const type = end - at > maxFrameBytes ? undefined : frameShape.exec(bytes.toString('latin1', at, end))?.[1];
      if (type === undefined) return result(false, true);
      at = end + frameEnd.length;
      if (type === 'end' || type === 'error') return result(true, false);
    }
  }

  #append(chunk: Buffer): void {
    const length = this.#length + chunk.length;
    if (length > this.#bytes.length) {
      const larger = Buffer.alloc(2 * length);
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    chunk.copy(this.#bytes, this.#length);
    this.#length = length;
  }
}
