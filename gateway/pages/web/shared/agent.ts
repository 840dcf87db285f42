import { PageError } from './page-error.ts';
import { ask, joined, parseJson, readBytes, toFields, toPageError } from './replies.ts';

/** The agent sends waiting output in pieces of up to 1 MiB. Base64 and JSON make them larger. */
const maxFrameBytes = 4 * 1024 * 1024;
const endOfStream = 2;

/** Calls the agent with one message and returns its reply. @throws {PageError} */
export async function callAgent(
  path: string,
  message: object,
  maxReplyBytes = 256 * 1024,
): Promise<Record<string, unknown>> {
  const response = await ask(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(message),
  });
  return toFields(parseJson(await readBytes(response, maxReplyBytes)));
}

/**
 * The messages of a Connect server stream. They are read only as fast as the page asks for them, so a slow page slows
 * down the process. @throws {PageError}
 */
export async function* streamFromAgent(
  path: string,
  message: object,
  silenceMs: number,
): AsyncGenerator<Record<string, unknown>, void> {
  const text = new TextEncoder().encode(JSON.stringify(message));
  const head = new Uint8Array(5);
  new DataView(head.buffer).setUint32(1, text.length);
  const response = await ask(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/connect+json', 'Keepalive-Ping-Interval': String(silenceMs / 3000) },
    body: joined([head, text], head.length + text.length),
  });
  if (!response.body) throw new PageError('disconnected', 'The connection broke off');
  for await (const [flags, frame] of readFrames(response.body.getReader(), silenceMs)) {
    const said = toFields(parseJson(frame));
    if ((flags & endOfStream) === 0) yield said;
    else if (said.error) throw toPageError(response.status, said.error);
    else return;
  }
  throw new PageError('disconnected', 'The connection broke off');
}

async function* readFrames(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  silenceMs: number,
): AsyncGenerator<[flags: number, message: Uint8Array], void> {
  let data = new Uint8Array();
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), silenceMs);
      if (done) return;
      data = joined([data, value], data.length + value.length);
      while (data.length >= 5) {
        const length = new DataView(data.buffer, data.byteOffset).getUint32(1);
        if (length > maxFrameBytes) throw new PageError('bad_reply', 'The agent sent a message that is too long');
        if (data.length < 5 + length) break;
        yield [data[0]!, data.subarray(5, 5 + length)];
        data = data.subarray(5 + length);
      }
    }
  } finally {
    // Cancelling may fail if the connection is already closed.
    reader.cancel().catch(() => undefined);
  }
}

/** The agent sends a keepalive in each silence. Without one, the connection is lost or the sandbox is frozen. */
async function within<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new PageError('disconnected', 'The connection is silent')), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } catch (error) {
    throw error instanceof PageError ? error : new PageError('disconnected', 'The connection broke off');
  } finally {
    clearTimeout(timer);
  }
}

export function fromBase64(text: string): Uint8Array {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    throw new PageError('bad_reply', 'The agent sent output that is not base64');
  }
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

export function toBase64(text: string): string {
  let binary = '';
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}
