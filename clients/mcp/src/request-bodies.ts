import type http from 'node:http';

/** A request that is refused before it reaches the tools. */
export class RequestRefused extends Error {
  override name = 'RequestRefused';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface BodyLimits {
  /** The maximum length of one body. */
  bodyBytes: number;
  /** The length after which a body is only read on if the platform accepts the caller's key. */
  unprovenBytes: number;
  /** The maximum number of bytes of all bodies that are held at the same time. */
  totalBytes: number;
}

/** Reads the bodies of requests. Callers whose key is not valid make the server hold few bytes. */
export class RequestBodies {
  readonly #limits: BodyLimits;
  readonly #proveKey: (apiKey: string) => Promise<void>;
  #held = 0;

  /** @param proveKey throws `RequestRefused` if the platform does not accept the key */
  constructor(limits: BodyLimits, proveKey: (apiKey: string) => Promise<void>) {
    this.#limits = limits;
    this.#proveKey = proveKey;
  }

  /**
   * Reads a body, which counts until its request is closed.
   * @throws {RequestRefused}
   */
  async read(request: http.IncomingMessage, response: http.ServerResponse, apiKey: string): Promise<Buffer> {
    const { bodyBytes, unprovenBytes, totalBytes } = this.#limits;
    const tooLong = new RequestRefused(413, `The body has more than ${bodyBytes} bytes`);
    if (Number(request.headers['content-length'] ?? 0) > bodyBytes) throw tooLong;
    const chunks: Buffer[] = [];
    let bytes = 0;
    let isProven = false;
    response.once('close', () => {
      this.#held -= bytes;
    });
    // The connection stays open when the loop is left, so that the refusal can be sent.
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      this.#held += chunk.length;
      if (bytes > bodyBytes) throw tooLong;
      if (this.#held > totalBytes) throw new RequestRefused(503, 'The server has too many long requests; try again');
      if (bytes > unprovenBytes && !isProven) {
        await this.#proveKey(apiKey);
        isProven = true;
      }
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }
}

const proofMs = 10_000;

/** Asks the platform whether it accepts a key. @throws {RequestRefused} */
export async function proveKey(apiUrl: string, apiKey: string): Promise<void> {
  const reply = await fetch(new URL('/v1/users/me', apiUrl), {
    headers: { 'x-api-key': apiKey },
    redirect: 'manual',
    signal: AbortSignal.timeout(proofMs),
  }).catch((error: unknown) => {
    throw new RequestRefused(503, `The platform cannot be reached: ${(error as Error).message}`);
  });
  await reply.body?.cancel();
  if (reply.ok) return;
  if (reply.status === 401) throw new RequestRefused(401, 'The API key is not valid');
  throw new RequestRefused(503, `The platform cannot check the API key now: it answered ${reply.status}`);
}
