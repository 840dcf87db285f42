import type { IncomingMessage } from 'node:http';
import { connectionError, SandboxError } from './errors.ts';
import { parseReply } from './http-exchange.ts';

const endOfStream = 2;

/** A message in a frame of Connect's streams: one byte of flags, four of length, the message. */
export function frame(message: unknown): Uint8Array {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, text]);
}

/**
 * The messages of a server stream.
 * @throws {SandboxError} with the code with which the stream ended; `connection_failed` when it broke off
 */
export async function* readFrames<Message>(
  response: IncomingMessage,
  maxMessageBytes: number,
): AsyncGenerator<Message, void> {
  for await (const [flags, text] of splitFrames(response, maxMessageBytes)) {
    const message = parseReply(text);
    if ((flags & endOfStream) === 0) {
      yield message;
      continue;
    }
    if (message.error) throw new SandboxError(message.error.code, message.error.message ?? message.error.code);
    return;
  }
  throw new SandboxError('connection_failed', 'The stream broke off');
}

async function* splitFrames(
  response: IncomingMessage,
  maxMessageBytes: number,
): AsyncGenerator<[flags: number, text: string], void> {
  let chunks: Buffer[] = [];
  let length = 0;
  let wanted = 5;
  try {
    for await (const chunk of response) {
      chunks.push(chunk as Buffer);
      length += (chunk as Buffer).length;
      if (length < wanted) continue;
      let data = Buffer.concat(chunks);
      for (;;) {
        wanted = data.length < 5 ? 5 : 5 + data.readUInt32BE(1);
        if (wanted > maxMessageBytes) throw new SandboxError('bad_reply', 'A message of the stream is too long');
        if (data.length < wanted || data.length < 5) break;
        yield [data[0]!, data.toString('utf8', 5, wanted)];
        data = data.subarray(wanted);
      }
      chunks = [data];
      length = data.length;
    }
  } catch (error) {
    if (error instanceof SandboxError || (error as Error).name === 'AbortError') throw error;
    throw connectionError('The stream broke off', error as Error);
  }
}
