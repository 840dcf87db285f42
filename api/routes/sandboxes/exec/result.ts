import { z } from 'zod';

/** A result has at most this much output, the newest. The agent keeps the same amount. */
const maxBytes = 1024 * 1024;
/** Spare bytes in the buffers, so that the kept output is not moved for each piece. */
const slackBytes = 256 * 1024;

type Channel = 'stdout' | 'stderr';
const channelNumbers: Record<Channel, number> = { stdout: 0, stderr: 1 };

interface ExecResult {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** The output is incomplete, because there was more than the limit. */
  truncated: boolean;
}

/** The command ended without an exit code. */
export class ExecEndedEarly extends Error {
  override name = 'ExecEndedEarly';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

const output = z.object({ data_b64: z.base64() });
const end = z.object({ exit_code: z.int() });
const failure = z.object({ code: z.string().max(64), message: z.string().max(4096) });

/** Collects the result of an execution from its events. @throws {ExecEndedEarly} */
export async function execResult(events: AsyncIterable<Buffer>): Promise<ExecResult> {
  const kept = new NewestOutput();
  let sequence = 0;
  for await (const frames of events) {
    for (const frame of frames.toString('latin1').split('\n\n')) {
      const { id, type, data } = parseFrame(frame);
      if (id !== undefined) {
        if (id > sequence + 1) kept.isTruncated = true;
        sequence = id;
      }
      if (type === 'stdout' || type === 'stderr') kept.add(type, bytesIn(data));
      else if (type === 'end') return { exitCode: read(end, data).exit_code, ...kept.texts() };
      else if (type === 'error') {
        const { code, message } = read(failure, data);
        throw new ExecEndedEarly(code, message);
      }
    }
  }
  throw new ExecEndedEarly('exec_interrupted', 'The connection to the sandbox broke; the command may still run');
}

function parseFrame(frame: string): { id?: number; type?: string; data?: string } {
  const id = /^id: \w+-(\d{1,15})$/m.exec(frame)?.[1];
  const type = /^event: (\w+)$/m.exec(frame)?.[1];
  const data = /^data: (.*)$/m.exec(frame)?.[1];
  return { ...(id && { id: Number(id) }), ...(type && { type }), ...(data && { data }) };
}

const bytesIn = (data: string | undefined) => Buffer.from(read(output, data).data_b64, 'base64');

/** The agent lives inside the sandbox, so its data is untrusted. */
function read<T>(shape: z.ZodType<T>, data: string | undefined): T {
  try {
    // Frames are decoded as latin1 so that split characters survive. The texts in them are UTF-8.
    return shape.parse(JSON.parse(Buffer.from(data ?? '', 'latin1').toString('utf8')));
  } catch {
    throw new ExecEndedEarly('exec_interrupted', 'The agent in the sandbox does not send a valid reply');
  }
}

/**
 * The newest output of both channels, in memory that does not grow with the number of pieces: an agent chooses their
 * size.
 */
class NewestOutput {
  isTruncated = false;
  #bytes: Buffer = Buffer.alloc(4096);
  /** The channel of each byte. */
  #channels: Buffer = Buffer.alloc(4096);
  #length = 0;

  add(channel: Channel, bytes: Buffer): void {
    this.#grow(bytes.length);
    bytes.copy(this.#bytes, this.#length);
    this.#channels.fill(channelNumbers[channel], this.#length, this.#length + bytes.length);
    this.#length += bytes.length;
    if (this.#length > maxBytes) this.isTruncated = true;
  }

  texts(): Pick<ExecResult, Channel | 'truncated'> {
    return { stdout: this.#text('stdout'), stderr: this.#text('stderr'), truncated: this.isTruncated };
  }

  /** Makes the buffers larger up to their bound. Then moves the newest bytes to the start. */
  #grow(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const from = Math.max(0, this.#length - maxBytes);
    const needed = this.#length - from + count;
    const size = Math.max(needed, Math.min(maxBytes + slackBytes, 2 * needed));
    this.#bytes = resized(this.#bytes.subarray(from, this.#length), size);
    this.#channels = resized(this.#channels.subarray(from, this.#length), size);
    this.#length -= from;
  }

  #text(wanted: Channel): string {
    const from = Math.max(0, this.#length - maxBytes);
    const found = Buffer.alloc(this.#length - from);
    let count = 0;
    for (let at = from; at < this.#length; at += 1) {
      if (this.#channels[at] === channelNumbers[wanted]) found[count++] = this.#bytes[at]!;
    }
    return found.toString('utf8', 0, count);
  }
}

function resized(bytes: Buffer, size: number): Buffer {
  const larger = Buffer.alloc(size);
  bytes.copy(larger);
  return larger;
}
