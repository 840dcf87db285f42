import { timingSafeEqual } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Payload, PayloadCodec } from '@temporalio/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { AppError } from '../../domain/errors.ts';
import { defaultJsonBounds, type JsonBounds } from '../../domain/json-bounds.ts';
import { UnreadablePayloadError } from '../../platform/temporal/payload-codec.ts';
import { anyone } from '../access.ts';
import { onRequestEnd } from './draining.ts';

/** Temporal accepts payloads of up to 2 MB, which are 2.7 MB in base64. */
const maxBodyBytes = 4 * 1024 * 1024;
const jsonBounds: JsonBounds = { ...defaultJsonBounds, maxDepth: 8, maxValues: 20_000, maxKeys: 10_000 };
/** The number of requests that are decoded concurrently. Each may need a multiple of its body in memory. */
const maxConcurrent = 8;
/** The Web UI sends one request for every payload that it shows. */
const requestsPerMinute = 6000;
/** The bytes that are processed before the event loop gets a turn. */
const sliceBytes = 256 * 1024;
const slicePayloads = 100;

export interface CodecServerOptions {
  codec: PayloadCodec;
  /** Each is a part of the path. With a wrong token the reply is that of an unknown route. */
  accessTokens: readonly string[];
  /** The origin of the Web UI, for cross-origin requests of browsers. */
  webUiOrigin: string | null;
}

/**
 * Decodes workflow payloads for operators in Temporal's Web UI and CLI: `POST /codec/<token>/decode` and `…/encode`, in
 * the protocol of both. The Web UI cannot send a custom header, so the token is in the path. The token is checked
 * before any byte of the body is read.
 */
export const codecServer = fp<CodecServerOptions>(
  async (app, { codec, accessTokens, webUiOrigin }) => {
    let inProgress = 0;
    const requireToken = async (request: FastifyRequest, reply: FastifyReply) => {
      const { token } = request.params as { token: string };
      if (!accessTokens.some((accepted) => same(token, accepted))) {
        throw new AppError('route_not_found', 'There is no such route');
      }
      if (!webUiOrigin) return;
      reply
        .header('access-control-allow-origin', webUiOrigin)
        .header('access-control-allow-methods', 'POST, OPTIONS')
        .header('access-control-allow-headers', 'content-type, x-namespace, authorization')
        .header('access-control-allow-credentials', 'true')
        .header('vary', 'origin');
    };

    for (const direction of ['decode', 'encode'] as const) {
      const url = `/codec/:token/${direction}`;
      const shared = { url, schema: { hide: true }, onRequest: requireToken };
      app.route({
        ...shared,
        method: 'OPTIONS',
        config: { access: anyone({ requestsPerMinute }), quiet: true },
        handler: async (_request, reply) => reply.code(204).send(),
      });
      app.route({
        ...shared,
        method: 'POST',
        config: { access: anyone({ requestsPerMinute }), quiet: true, bodyBytes: maxBodyBytes, jsonBounds },
        // This runs before the body is read, so that a waiting body takes no memory.
        preParsing: async (_request, reply) => {
          if (inProgress >= maxConcurrent) {
            throw new AppError('temporarily_unavailable', 'Too many payloads are being decoded; try again');
          }
          inProgress++;
          onRequestEnd(reply, () => inProgress--);
        },
        handler: async (request, reply) => {
          const done = await inSlices(payloadsIn(request.body), (slice) => codec[direction](slice));
          return reply
            .type('application/json')
            .serializer(JSON.stringify)
            .send({ payloads: done.map(toJson) });
        },
      });
    }
  },
  { name: 'codec-server', dependencies: ['access', 'bodies'] },
);

/** The payloads of a request of the Web UI or the CLI: bytes in base64. @throws {AppError} `validation_failed` */
function payloadsIn(body: unknown): Payload[] {
  const payloads = isObject(body) ? (body.payloads ?? []) : null;
  if (!Array.isArray(payloads)) throw new AppError('validation_failed', 'The body has no list of payloads');
  return payloads.map((payload, index) => {
    const { metadata = null, data = null } = isObject(payload) ? payload : { metadata: undefined };
    if (isObject(payload) && isMetadata(metadata) && (data === null || typeof data === 'string')) {
      const bytes = Object.entries(metadata ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64')] as const);
      return { metadata: Object.fromEntries(bytes), data: Buffer.from(data ?? '', 'base64') };
    }
    throw unusable(index, 'is not a payload: metadata is an object of base64 texts, and data one');
  });
}

/** Processes the payloads in slices, so that other requests run between them. */
async function inSlices(
  payloads: readonly Payload[],
  work: (slice: Payload[]) => Promise<Payload[]>,
): Promise<Payload[]> {
  const done: Payload[] = [];
  while (done.length < payloads.length) {
    const start = done.length;
    let end = start;
    for (let bytes = 0; end < payloads.length && end - start < slicePayloads && bytes < sliceBytes; end++) {
      bytes += payloads[end]!.data?.length ?? 0;
    }
    try {
      done.push(...(await work(payloads.slice(start, end))));
    } catch (error) {
      if (error instanceof UnreadablePayloadError) throw unusable(start + error.index, error.message);
      throw error;
    }
    await nextTurn();
  }
  return done;
}

function unusable(index: number, reason: string): AppError {
  const path = `payloads.${index}`;
  return new AppError('validation_failed', `${path} ${reason}`, { details: [{ path, reason }] });
}

function toJson({ metadata, data }: Payload) {
  const texts = Object.entries(metadata ?? {}).map(([key, value]) => [key, base64(value)] as const);
  return { metadata: Object.fromEntries(texts), data: base64(data ?? new Uint8Array()) };
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function isMetadata(value: unknown): value is Record<string, string> | null {
  return value === null || (isObject(value) && Object.values(value).every((text) => typeof text === 'string'));
}

function same(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
