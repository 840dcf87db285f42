/** The longest event an agent sends is 48 KiB of output in base64. */
const maxFrameBytes = 128 * 1024;
const frameEnd = Buffer.from('\n\n');
const frameShape =
  /^(?:retry: \d{1,6}\n)?(?:id: \w{1,64}-\d{1,16}\n)?event: (ready|start|stdout|stderr|end|error)\ndata: [^\r\n]*$/;

/** Why a stream ends without the run's own last event. */
export interface ExecFailure {
  code: string;
  message: string;
}

export interface StreamOptions {
  keepaliveMs: number;
  /** Asked at each silence: a reason to wait no longer, or null. */
  onSilence(): Promise<ExecFailure | null>;
  /** The agent's stream broke off. Null: the reader has gone, and nobody is to be told. */
  onBreak(): Promise<ExecFailure | null>;
  /** Ends the stream where it is; the reader may come back elsewhere. */
  signal: AbortSignal;
}

/**
 * An agent's events for a client (section 6.2): passed on event by event as they come and as fast as they are taken,
 * with a `keepalive` in every silence, and always with `end` or `error` as the last. What does not look like an event
 * is not passed on: the agent lives inside the sandbox.
 */
export async function* execStream(agent: AsyncIterable<Buffer>, options: StreamOptions): AsyncGenerator<Buffer> {
  const chunks = agent[Symbol.asyncIterator]();
  const aborted = new Promise<'aborted'>((resolve) =>
    options.signal.addEventListener('abort', () => resolve('aborted'), { once: true }),
  );
  let rest: Buffer = Buffer.alloc(0);
  let next = chunks.next();
  while (!options.signal.aborted) {
    let got: IteratorResult<Buffer> | 'silence' | 'aborted';
    try {
      got = await Promise.race([within(next, options.keepaliveMs), aborted]);
    } catch {
      // However the connection broke: the sandbox's state tells more than the error.
      got = { done: true, value: undefined };
    }
    if (got === 'aborted') return;
    if (got === 'silence') {
      const failure = await options.onSilence();
      yield failure ? errorFrame(failure) : keepaliveFrame;
      if (failure) return;
      continue;
    }
    const { frames, rest: left, isLast, isForeign } = split(got.done ? rest : Buffer.concat([rest, got.value]));
    if (frames.length > 0) yield frames;
    if (isLast) return;
    if (got.done || isForeign) {
      const failure = await options.onBreak();
      if (failure) yield errorFrame(failure);
      return;
    }
    rest = left;
    next = chunks.next();
  }
}

const keepaliveFrame = Buffer.from('event: keepalive\ndata: {}\n\n');

function errorFrame(failure: ExecFailure): Buffer {
  return Buffer.from(`event: error\ndata: ${JSON.stringify(failure)}\n\n`);
}

/** The whole events at the beginning, up to the run's last one; `isForeign`: what follows them is none. */
function split(bytes: Buffer): { frames: Buffer; rest: Buffer; isLast: boolean; isForeign: boolean } {
  let at = 0;
  const result = (isLast: boolean, isForeign: boolean) => ({
    frames: bytes.subarray(0, at),
    rest: bytes.subarray(at),
    isLast,
    isForeign,
  });
  for (;;) {
    const end = bytes.indexOf(frameEnd, at);
    if (end < 0) return result(false, bytes.length - at > maxFrameBytes);
    const type = frameShape.exec(bytes.toString('latin1', at, end))?.[1];
    if (type === undefined || end - at > maxFrameBytes) return result(false, true);
    at = end + frameEnd.length;
    if (type === 'end' || type === 'error') return result(true, false);
  }
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T | 'silence'> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<'silence'>((resolve) => {
    timer = setTimeout(resolve, ms, 'silence');
  });
  try {
    return await Promise.race([promise, silence]);
  } finally {
    clearTimeout(timer);
  }
}
