import { z } from 'zod';

/** The newest output in a result, as much as the agent keeps. */
const maxBytes = 1024 * 1024;

type Channel = 'stdout' | 'stderr';

export interface ExecResult {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** Output is missing: there was more than is kept. */
  truncated: boolean;
}

/** A command that ended without an exit code. */
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

/** The result of the run whose events these are. @throws {ExecEndedEarly} */
export async function execResult(events: AsyncIterable<Buffer>): Promise<ExecResult> {
  const kept = new NewestOutput();
  let sequence = 0;
  for await (const frames of events) {
    for (const frame of frames.toString('latin1').split('\n\n')) {
      const { id, type, data } = fieldsOf(frame);
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
  throw new ExecEndedEarly('exec_interrupted', 'The connection to the sandbox broke off; the command may go on');
}

function fieldsOf(frame: string): { id?: number; type?: string; data?: string } {
  const id = /^id: \w+-(\d{1,15})$/m.exec(frame)?.[1];
  const type = /^event: (\w+)$/m.exec(frame)?.[1];
  const data = /^data: (.*)$/m.exec(frame)?.[1];
  return { ...(id && { id: Number(id) }), ...(type && { type }), ...(data && { data }) };
}

const bytesIn = (data: string | undefined) => Buffer.from(read(output, data).data_b64, 'base64');

/** The agent lives inside the sandbox and may send anything. */
function read<T>(shape: z.ZodType<T>, data: string | undefined): T {
  try {
    // Frames are split as latin1, so that no piece of a character is lost; texts in them are UTF-8.
    return shape.parse(JSON.parse(Buffer.from(data ?? '', 'latin1').toString('utf8')));
  } catch {
    throw new ExecEndedEarly('exec_interrupted', 'The sandbox does not answer as agents do');
  }
}

class NewestOutput {
  isTruncated = false;
  readonly #pieces: { channel: Channel; bytes: Buffer }[] = [];
  #dropped = 0;
  #length = 0;

  add(channel: Channel, bytes: Buffer): void {
    this.#pieces.push({ channel, bytes });
    this.#length += bytes.length;
    while (this.#length > maxBytes) {
      this.#length -= this.#pieces[this.#dropped]!.bytes.length;
      this.#pieces[this.#dropped]!.bytes = Buffer.alloc(0);
      this.#dropped += 1;
      this.isTruncated = true;
    }
  }

  texts(): Pick<ExecResult, Channel | 'truncated'> {
    return { stdout: this.#text('stdout'), stderr: this.#text('stderr'), truncated: this.isTruncated };
  }

  /** Postgres stores no NUL in text, and the reply to an `Idempotency-Key` is stored. */
  #text(wanted: Channel): string {
    const pieces = this.#pieces.filter(({ channel }) => channel === wanted).map(({ bytes }) => bytes);
    return Buffer.concat(pieces).toString('utf8').replaceAll('\0', '\ufffd');
  }
}
