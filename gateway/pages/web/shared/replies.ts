import { PageError, visibleText } from './page-error.ts';

const maxErrorBytes = 64 * 1024;

/** Reads a whole body of at most that many bytes. @throws {PageError} `too_large`, `disconnected` */
export async function readBytes(response: Response, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  if (!response.body) return new Uint8Array();
  const reader = response.body.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(brokenOff);
    if (done) break;
    length += value.length;
    if (length > maxBytes) {
      await reader.cancel().catch(() => undefined);
      throw new PageError('too_large', `The reply is larger than ${Math.round(maxBytes / 1024)} KiB`);
    }
    chunks.push(value);
  }
  return joined(chunks, length);
}

export function joined(chunks: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

/** @throws {PageError} `bad_reply` */
export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new PageError('bad_reply', 'The agent of the sandbox sent a reply that is not JSON');
  }
}

/**
 * `fetch` that fails with a PageError. Its code is `disconnected` without a reply, otherwise the code of the gateway or
 * the agent.
 */
export async function ask(path: string, options: RequestInit): Promise<Response> {
  const response = await fetch(path, { credentials: 'same-origin', redirect: 'error', ...options }).catch(brokenOff);
  if (response.ok) return response;
  throw toPageError(response.status, jsonOrNull(await readBytes(response, maxErrorBytes)));
}

/** The gateway replies with `{code, error}`, the agent with `{code, message}`, or for files only `{message}`. */
export function toPageError(status: number, said: unknown): PageError {
  const { code, error, message } = toFields(said);
  const text = error ?? message;
  return new PageError(
    typeof code === 'string' ? code : `http_${status}`,
    typeof text === 'string' ? visibleText(text) : `The sandbox answered with status ${status}`,
  );
}

function jsonOrNull(bytes: Uint8Array): unknown {
  try {
    return parseJson(bytes);
  } catch {
    // The status already explains the failure.
    return null;
  }
}

/** The fields of an unknown value. A value that is not an object has none. */
export function toFields(value: unknown): Record<string, unknown> {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Record<string, unknown>) : {};
}

function brokenOff(): never {
  throw new PageError('disconnected', 'The connection broke off');
}
